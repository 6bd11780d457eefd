//! The output of a start: everything the first time, afterwards only news.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rookery_jid::Jid;
use rookery_web::chat::package;

use crate::certificate::ServerCertificate;
use crate::clock;
use crate::config::Environment;
use crate::failure::CommandFailure;
use crate::folder::{self, Folder};
use crate::listener::PortKind;
use crate::loaded::{DATA_DIR, Loaded, SERVICE_CONFIG, SERVICE_DATA};

/// The first account.
pub enum FirstAdmin {
    /// The account is new; its password is kept nowhere else.
    Made {
        /// Its address.
        jid: Jid,
        /// The place at which its password can be seen.
        password: FirstSecret,
    },
    /// There already were accounts.
    Others,
}

/// The place where the password of the first account is shown, once.
pub enum FirstSecret {
    /// On the terminal.
    Shown(String),
    /// In this file. Output that isn't a terminal may go to systemd's journal, which is kept and
    /// which others read.
    Kept(PathBuf),
}

impl FirstSecret {
    /// Keeps a password for the person who starts this server: for the terminal, or in a file of
    /// the data folder that only its owner can read.
    ///
    /// # Errors
    ///
    /// [`CommandFailure::Failed`] if the file can't be written.
    pub fn keep(password: String, folder: &Folder) -> Result<FirstSecret, CommandFailure> {
        if std::io::stdout().is_terminal() {
            return Ok(FirstSecret::Shown(password));
        }
        let file = folder.first_password();
        folder::write(&file, &format!("{password}\n"), 0o600)?;
        Ok(FirstSecret::Kept(file))
    }
}

/// Reports everything, for a first start.
pub fn first(loaded: &Loaded, bound: &[(SocketAddr, PortKind)], admin: &FirstAdmin) {
    let mut text = format!("Rookery {VERSION}, first start\n\n");
    let mut row = |name: &str, value: String| {
        // Writing to a string can't fail.
        let _ = writeln!(text, "  {name:<12}{value}");
    };
    let folder = &loaded.source.folder;
    let path = folder.path().canonicalize().unwrap_or_else(|_| folder.path().to_owned());
    row("Data", path.display().to_string());
    row("Config", config_words(loaded));
    row("Domains", names(loaded));
    row("Listening", listening(bound));
    for certificate in &loaded.certificates {
        row("Certificate", certificate_words(certificate));
    }
    if let FirstAdmin::Made { jid, password } = admin {
        row("Account", jid.to_string());
        row(
            "Password",
            match password {
                FirstSecret::Shown(password) => {
                    format!(
                        "{password}   (shown this once; change it with `rookery user passwd {jid}{}`)",
                        options(loaded)
                    )
                }
                FirstSecret::Kept(file) => {
                    format!("{}   (delete the file when you have read it)", file.display())
                }
            },
        );
    }
    if let Some(page) = admin_page(loaded, bound) {
        row("Admin page", page);
    }
    let _ = write!(text, "\nTry next:\n{}\n", next_steps(loaded, bound, admin));
    say(&text);
}

/// Returns the address of the admin page, as seen from this machine; `None` if it is off.
fn admin_page(loaded: &Loaded, bound: &[(SocketAddr, PortKind)]) -> Option<String> {
    if loaded.config.web.admin_networks.is_empty() {
        return None;
    }
    let of = |kind: PortKind| bound.iter().find(|(_, found)| *found == kind).map(|(address, _)| *address);
    let (scheme, address) =
        of(PortKind::Web).map(|address| ("http", address)).or(of(PortKind::WebTls).map(|address| ("https", address)))?;
    let is_here = address.ip().is_loopback() || address.ip().is_unspecified();
    Some(match is_here {
        true => format!("{scheme}://localhost:{}/admin", address.port()),
        false => format!("{scheme}://{address}/admin"),
    })
}

/// Reports the changes, for later starts.
pub fn again(changes: &[String], loaded: &Loaded) {
    let remade = loaded.certificates.iter().filter(|certificate| certificate.made);
    let remade =
        remade.map(|certificate| format!("created a self-signed certificate for {}", certificate.domains.join(", ")));
    let lines = changes.iter().cloned().chain(remade);
    say(&lines.map(|line| format!("{line}\n")).collect::<String>());
}

/// Says that the server runs, and where; to somebody at a terminal also how to stop it.
pub fn running(bound: &[(SocketAddr, PortKind)]) {
    let stop = if std::io::stderr().is_terminal() { "; Ctrl-C stops it" } else { "" };
    say(&format!("Rookery {VERSION} is running: {}{stop}\n", listening(bound)));
}

/// Writes to standard output. If that is closed, the server goes on.
pub fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn listening(bound: &[(SocketAddr, PortKind)]) -> String {
    let all: Vec<_> = bound.iter().map(|(address, kind)| format!("{address} ({kind})")).collect();
    all.join(", ")
}

fn names(loaded: &Loaded) -> String {
    let names: Vec<_> = loaded.config.domains.iter().map(|domain| domain.name.as_str()).collect();
    names.join(", ")
}

fn config_words(loaded: &Loaded) -> String {
    match (&loaded.source.config, Environment::of_process().names()) {
        (Some(file), None) => file.display().to_string(),
        (Some(file), Some(variables)) => format!("{}, and {variables}", file.display()),
        (None, Some(variables)) => format!("the variables {variables}, and no file"),
        (None, None) => {
            format!("none, so the defaults apply; {} would be read", loaded.source.folder.config().display())
        }
    }
}

fn certificate_words(certificate: &ServerCertificate) -> String {
    let until = clock::date(certificate.inspection.not_after);
    let domains = certificate.domains.join(", ");
    match certificate.own {
        true => format!("self-signed for {domains}, until {until}; clients will ask whether to trust it"),
        // The certificate's own names are shown: if the file is the wrong one, they aren't the
        // domains.
        false => {
            format!("{} for {}, until {until}", certificate.file.display(), certificate.inspection.names.join(", "))
        }
    }
}

fn next_steps(loaded: &Loaded, bound: &[(SocketAddr, PortKind)], admin: &FirstAdmin) -> String {
    let mut steps = String::new();
    let port = bound.iter().find(|(_, kind)| *kind == PortKind::C2s).or(bound.first());
    if let (FirstAdmin::Made { jid, password }, Some((address, _))) = (admin, port) {
        let password = match password {
            FirstSecret::Shown(_) => "the password above",
            FirstSecret::Kept(_) => "the password in that file",
        };
        let (domain, port) = (jid.domain(), address.port());
        let _ = writeln!(steps, "  connect a client as {jid} with {password} to {domain}, port {port}");
    }
    let options = options(loaded);
    let domain = loaded.config.domains.first().map_or("localhost", |domain| domain.name.as_str());
    let _ = writeln!(steps, "  rookery user add alice@{domain}{options}");
    let register = loaded.config.domains.first().and_then(|domain| domain.modules.get("register"));
    if register.is_some_and(|module| module.enabled) {
        let _ = writeln!(steps, "  rookery user invite {domain}{options}   for a link to choose a name and password");
    }
    let page = bound.iter().find(|(_, kind)| *kind == PortKind::WebTls).filter(|_| loaded.config.web.chat);
    let page = page.filter(|_| package::installed_folder(loaded.source.folder.path()).is_none());
    if let Some((address, _)) = page {
        let _ = writeln!(
            steps,
            "  rookery web install{options}   for a web chat, https://{domain}:{}/chat",
            address.port()
        );
    }
    let _ = writeln!(steps, "  rookery check{options}");
    if loaded.source.config.is_none() {
        let _ = writeln!(steps, "  rookery config example > {}", quote(&loaded.source.folder.config()));
    }
    steps
}

/// Returns the options that a command needs to find this server's data.
fn options(loaded: &Loaded) -> String {
    let mut options = String::new();
    let folder = &loaded.source.folder;
    // Commands find a server of systemd without options.
    if folder.path() == Path::new(SERVICE_DATA) && loaded.source.config.as_deref() == Some(Path::new(SERVICE_CONFIG)) {
        return options;
    }
    if folder.path() != Path::new(DATA_DIR) {
        let _ = write!(options, " --data-dir {}", quote(folder.path()));
    }
    if let Some(file) = loaded.source.config.as_ref().filter(|file| **file != folder.config()) {
        let _ = write!(options, " --config {}", quote(file));
    }
    options
}

/// Quotes a path for a shell.
pub fn quote(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+:@".contains(c));
    if plain && !text.is_empty() { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
