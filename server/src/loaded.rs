//! One generation of everything that a reload replaces.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rookery_hub::{Registry, Settings};
use rookery_modules::Shared;
use rookery_stream::c2s::Policy;
use rookery_stream::tls::{Identity, TlsSettings};
use rookery_web::comparison::{ChangedKey, ChangedValue, ComparedValues};

use crate::certificate::{self, ServerCertificate};
use crate::config::effective::{mask, settings as settings_of};
use crate::config::{ConfigError, Environment, ServerConfig};
use crate::database::Decoys;
use crate::failure::CommandFailure;
use crate::federation::{self, Federated};
use crate::folder::Folder;
use crate::logins::LoginSources;
use crate::settings;

/// The paths of configuration and data.
#[derive(Debug, Clone)]
pub struct ConfigSource {
    /// The configuration file; without one, the defaults hold.
    pub config: Option<PathBuf>,
    /// The data folder.
    pub folder: Folder,
}

/// The data folder, unless another one is named.
pub const DATA_DIR: &str = "./rookery-data";
/// The data folder of a server that systemd runs.
pub const SERVICE_DATA: &str = "/var/lib/rookery";
/// The configuration of such a server.
pub const SERVICE_CONFIG: &str = "/etc/rookery/rookery.toml";

impl ConfigSource {
    /// Finds the paths from the command line like [`ConfigSource::new`], for a command that works
    /// on an existing server. If no path is given and there is no server here, they are those of
    /// the server that systemd runs.
    pub fn find(config: Option<PathBuf>, data_dir: PathBuf) -> ConfigSource {
        let service = Path::new(SERVICE_CONFIG);
        match config.is_none() && data_dir == Path::new(DATA_DIR) && !data_dir.exists() && service.is_file() {
            true => ConfigSource { config: Some(service.to_owned()), folder: Folder::new(SERVICE_DATA.into()) },
            false => ConfigSource::new(config, data_dir),
        }
    }

    /// Finds the paths from the command line. A configuration file that is named has to exist,
    /// while the one in the data folder need not.
    pub fn new(config: Option<PathBuf>, data_dir: PathBuf) -> ConfigSource {
        let folder = Folder::new(data_dir);
        let config = config.or_else(|| Some(folder.config()).filter(|file| file.exists()));
        ConfigSource { config, folder }
    }

    /// Reads the configuration, with the environment's values instead of the file's.
    ///
    /// # Errors
    ///
    /// All of its mistakes.
    pub fn read(&self) -> Result<ServerConfig, ConfigError> {
        let modules = rookery_modules::table(&Shared::default());
        ServerConfig::load(self.config.as_deref(), &Environment::of_process(), &modules)
    }
}

/// One generation of configuration and certificates, with everything derived from them. It never
/// changes; a reload makes a new one.
#[derive(Debug)]
pub struct Loaded {
    /// The paths that it was read from.
    pub source: ConfigSource,
    /// The configuration.
    pub config: ServerConfig,
    /// The hubs' part of it.
    pub settings: Arc<Settings>,
    /// The client streams' part of it.
    pub policy: Arc<Policy>,
    /// TLS with all certificates.
    pub tls: TlsSettings,
    /// The certificates, that of the default domain first.
    pub certificates: Vec<ServerCertificate>,
    /// The terms of streams with other servers, if there are any.
    pub federation: Option<Federated>,
    /// Changes since the start that take effect after a restart, as keys and tables.
    pub restart: Vec<ChangedKey>,
    logins: LoginSources,
    decoys: Decoys,
    /// The configuration of the start, which still holds for everything that can't change while the
    /// server runs.
    started: Option<Arc<ServerConfig>>,
}

/// The result of a reload.
#[derive(Debug)]
pub struct ReloadOutcome {
    /// The generation that is in force from now on.
    pub loaded: Loaded,
    /// Changes in the configuration that need a restart, as keys and tables.
    pub restart: Vec<ChangedKey>,
}

impl Loaded {
    /// Reads configuration and certificates, and keeps the `old` generation's state for other
    /// servers and for logins; makes the self-signed certificate if it is due.
    ///
    /// # Errors
    ///
    /// [`CommandFailure::Config`] if the configuration or a certificate that it names is wrong.
    pub fn load(source: ConfigSource, decoys: Decoys, old: Option<&Loaded>) -> Result<Loaded, CommandFailure> {
        let config = source.read()?;
        Loaded::with(source, config, decoys, old)
    }

    /// Makes a generation like [`Loaded::load`], from a configuration that was read before.
    ///
    /// # Errors
    ///
    /// The errors of [`Loaded::load`].
    pub fn with(
        source: ConfigSource,
        config: ServerConfig,
        decoys: Decoys,
        old: Option<&Loaded>,
    ) -> Result<Loaded, CommandFailure> {
        let certificates = certificate::load(&config, &source.folder)?;
        let tls = tls(&config, &certificates)?;
        // Only the declarations of these modules are used; the tables that run belong to the
        // shards.
        let table = rookery_modules::table(&Shared::default());
        let logins = LoginSources::start(&config, old.map(|old| &old.logins))?;
        let settings = settings::settings(&config, &table, &logins);
        let policy = settings::policy(&config, &settings, &Registry::new(table), &decoys);
        let federation =
            federation::load(&config, &certificates, &decoys, old.and_then(|old| old.federation.as_ref()))?;
        let (settings, policy) = (Arc::new(settings), Arc::new(policy));
        let (restart, started) = (Vec::new(), None);
        Ok(Loaded { source, config, settings, policy, tls, certificates, federation, restart, logins, decoys, started })
    }
}

/// Reads only the certificates again. On an error the old ones stay in force.
///
/// # Errors
///
/// [`CommandFailure::Config`] if a certificate can't be used.
pub fn new_certificates(old: &Loaded) -> Result<Loaded, CommandFailure> {
    let loaded = Loaded::with(old.source.clone(), old.config.clone(), old.decoys.clone(), Some(old))?;
    Ok(Loaded { restart: old.restart.clone(), started: old.started.clone(), ..loaded })
}

/// Reads everything again, for SIGHUP. On an error the old generation stays in force.
///
/// # Errors
///
/// [`CommandFailure::Config`] if the configuration or a certificate that it names is wrong.
pub fn reload(old: &Loaded, decoys: Decoys) -> Result<ReloadOutcome, CommandFailure> {
    let source = ConfigSource::new(old.source.config.clone(), old.source.folder.path().to_owned());
    let mut loaded = Loaded::load(source, decoys, Some(old))?;
    if loaded.federation.is_some() && old.federation.is_none() {
        // There is no listener for other servers yet.
        loaded.federation = None;
    }
    let started = old.started.clone().unwrap_or_else(|| Arc::new(old.config.clone()));
    let restart = needs_restart(&loaded.config, &started);
    loaded.started = Some(started);
    loaded.restart.clone_from(&restart);
    Ok(ReloadOutcome { loaded, restart })
}

/// Returns the changes of a configuration that need a restart, compared with the one of the start.
fn needs_restart(new: &ServerConfig, started: &ServerConfig) -> Vec<ChangedKey> {
    let changed = FIXED.iter().filter(|(_, differ)| differ(new, started));
    changed.map(|(key, _)| ChangedKey((*key).to_owned())).collect()
}

/// Keys and tables that hold as they were at the start, each with the comparison of two
/// configurations.
const FIXED: [(&str, Differs); 13] = [
    ("[listen]", |new, started| new.listen != started.listen),
    ("shards", |new, started| new.shards != started.shards),
    ("io", |new, started| new.io != started.io),
    ("web.connections", |new, started| new.web.connections != started.web.connections),
    ("[uploads]", |new, started| new.uploads != started.uploads),
    ("[events]", |new, started| new.events != started.events),
    ("[traces]", |new, started| new.traces != started.traces),
    ("[store]", |new, started| new.store != started.store),
    ("[cluster]", |new, started| new.cluster != started.cluster),
    ("federation.enabled", |new, started| new.federates() != started.federates()),
    ("[component]", |new, started| new.components.is_empty() != started.components.is_empty()),
    ("[dpm]", |new, started| new.dpm != started.dpm),
    ("log.format", |new, started| new.log.format != started.log.format),
];
/// A function that returns whether two configurations differ in a part.
type Differs = fn(&ServerConfig, &ServerConfig) -> bool;

/// Returns whether a key has that name, for the server or for one of its domains, or is in the
/// table `[NAME]`.
fn is_of(name: &str, key: &str) -> bool {
    match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(table) => key.strip_prefix(table).is_some_and(|rest| rest.starts_with('.')),
        None if key.starts_with("domain.") => key.strip_suffix(name).is_some_and(|domain| domain.ends_with('.')),
        None => key == name,
    }
}

/// Compares the configuration in force with the one in the file now.
///
/// # Errors
/// The file can't be read, or its text isn't a valid configuration.
pub fn compare(running: &Loaded) -> Result<ComparedValues, ConfigError> {
    let source = ConfigSource::new(running.source.config.clone(), running.source.folder.path().to_owned());
    let new = source.read()?;
    let started = running.started.as_deref().unwrap_or(&running.config);
    let fixed: Vec<&str> = FIXED.iter().filter(|(_, differ)| differ(&new, started)).map(|(name, _)| *name).collect();
    let [now, started, new] = [&running.config, started, &new].map(|config| {
        let all: BTreeMap<String, Option<String>> = settings_of(config).into_iter().collect();
        all
    });
    let keys: BTreeSet<&String> = now.keys().chain(started.keys()).chain(new.keys()).collect();
    let changes = keys.into_iter().filter_map(|key| {
        let needs_restart = fixed.iter().any(|name| is_of(name, key));
        let running = if needs_restart { &started } else { &now };
        let of = |all: &BTreeMap<String, Option<String>>| all.get(key).cloned().flatten();
        let (running, file) = (of(running), of(&new));
        let mask = |value: String| mask(key, &value);
        (running != file).then(|| ChangedValue {
            key: key.clone(),
            running: running.map(mask),
            file: file.map(mask),
            needs_restart,
        })
    });
    Ok(ComparedValues { changes: changes.collect(), file: source.config })
}

fn tls(config: &ServerConfig, certificates: &[ServerCertificate]) -> Result<TlsSettings, ConfigError> {
    let identities: Vec<Identity> = certificates.iter().map(|certificate| certificate.identity.clone()).collect();
    TlsSettings::speaking(identities, config.tls.minimum).map_err(|error| ConfigError::because(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_reload_takes_what_it_can_and_names_the_rest() {
        let directory = tempfile::tempdir().expect("a folder");
        let path = directory.path().to_owned();
        let first = Loaded::load(ConfigSource::new(None, path.clone()), Decoys::default(), None).expect("the defaults");
        assert!(first.certificates[0].made);
        assert!(reload(&first, Decoys::default()).expect("the same").restart.is_empty());

        let file = path.join("rookery.toml");
        fs::write(&file, "domains = [\"a.example\"]\nshards = 3\n[limits]\nlogin_seconds = 9\n").expect("written");
        let second = reload(&first, Decoys::default()).expect("a configuration that has appeared");
        assert_eq!(second.restart, [ChangedKey("shards".to_owned())]);
        assert_eq!(second.loaded.settings.domains[0].name, "a.example");
        assert_eq!(second.loaded.policy.idle_before, Some(9));
        assert!(second.loaded.certificates[0].made && second.loaded.certificates[0].inspection.covers("a.example"));

        // The values in force matter, not the earlier text of the file.
        fs::write(&file, "domains = [\"a.example\"]\nshards = 3\n").expect("written");
        let third = reload(&second.loaded, Decoys::default()).expect("the same");
        assert_eq!(third.restart, second.restart, "it is reported until the restart");
        fs::write(&file, "domains = [\"a.example\"]\n").expect("written");
        assert!(reload(&third.loaded, Decoys::default()).expect("as at the start").restart.is_empty());

        fs::write(&file, "shard = 3").expect("written");
        assert!(matches!(reload(&second.loaded, Decoys::default()), Err(CommandFailure::Config(_))));
    }

    #[test]
    fn a_comparison_tells_what_a_reload_would_change() {
        let directory = tempfile::tempdir().expect("a folder");
        let (path, file) = (directory.path().to_owned(), directory.path().join("rookery.toml"));
        let secret = |text: &str| format!("[component.\"b.example\"]\nsecret = \"{text}\"\n");
        fs::write(&file, secret("a long secret")).expect("written");
        let first = Loaded::load(ConfigSource::new(None, path), Decoys::default(), None).expect("loaded");
        assert_eq!(compare(&first).expect("the same").changes, []);
        let text = format!("shards = 3\n[limits]\nlogin_seconds = 9\n{}", secret("another secret"));
        fs::write(&file, text).expect("written");
        let change = |key: &str, running: &str, file: &str, needs_restart| ChangedValue {
            key: key.into(),
            running: Some(running.into()),
            file: Some(file.into()),
            needs_restart,
        };
        let shards = change("shards", "0", "3", true);
        let secret = change("component.\"b.example\".secret", "\"***\"", "\"***\"", false);
        let expected = [secret, change("limits.login_seconds", "60", "9", false), shards.clone()];
        assert_eq!(compare(&first).expect("changes").changes, expected);
        // Values that a reload has applied are in force; those that need a restart aren't.
        let second = reload(&first, Decoys::default()).expect("reloaded").loaded;
        assert_eq!(compare(&second).expect("changes").changes, [shards]);
        fs::write(&file, "shard = 3").expect("written");
        assert!(compare(&second).is_err());
    }

    #[test]
    fn all_that_stays_until_a_restart_has_keys() {
        let modules = rookery_modules::table(&Shared::default());
        let config =
            ServerConfig::parse("[component.\"b.example\"]\nsecret = \"a long secret\"\n", &modules).expect("read");
        for (name, _) in FIXED {
            assert!(settings_of(&config).iter().any(|(key, _)| is_of(name, key)), "{name}");
        }
        assert!(!is_of("[dpm]", "dpmx.a") && !is_of("shards", "a.shards"));
        assert!(is_of("federation.enabled", "domain.\"a.example\".federation.enabled"));
    }

    #[test]
    fn registration_is_announced_to_those_who_may() {
        let directory = tempfile::tempdir().expect("a folder");
        let file = directory.path().join("rookery.toml");
        let text = "domains = [\"a.example\", \"b.example\", \"c.example\"]\n\
             [domain.\"a.example\".modules.register]\nenabled = false\n\
             [domain.\"b.example\".modules.register]\nallow_creation = true\n";
        fs::write(&file, text).expect("written");
        let loaded = Loaded::load(ConfigSource::new(Some(file), directory.path().to_owned()), Decoys::default(), None)
            .expect("loaded");
        let [a, b, c] = loaded.policy.hosts.as_slice() else { panic!("three hosts") };
        let announced = [a, b, c].map(|host| {
            let features = String::from_utf8_lossy(&host.before_login_features);
            let to_anybody = features.contains("http://jabber.org/features/iq-register");
            (host.registration, features.contains("urn:xmpp:ibr-token:0"), to_anybody)
        });
        assert_eq!(announced, [(false, false, false), (true, true, true), (true, true, false)]);
        assert_eq!(loaded.certificates.len(), 1, "one self-signed certificate for all");
    }
}
