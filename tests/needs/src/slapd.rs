//! Starts an LDAP directory for one test.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use super::{free_port, guard, servers};

/// Debian's slapd on free ports of the loopback interface, with a test's entries below
/// `dc=example,dc=org`. It ends and its folder is removed when the test's process ends, however
/// that happens.
pub struct Slapd {
    folder: PathBuf,
    /// The process that ends it: it waits for the end of its standard input.
    guard: Child,
    port: u16,
    port_tls: u16,
}

impl Slapd {
    /// Installs slapd if it is missing, and starts it with these entries (LDIF), a certificate and
    /// its key (PEM).
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn start(entries: &str, certificate: &str, key: &str) -> Slapd {
        Self::start_with(entries, certificate, key, "")
    }

    /// Installs and starts slapd with further lines of its configuration.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn start_with(entries: &str, certificate: &str, key: &str, more: &str) -> Slapd {
        servers(&[("slapd", "slapd")]);
        let folder = guard::folder("slapd");
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("a written file");
        std::fs::create_dir(folder.join("db")).expect("a folder");
        write("certificate.pem", certificate);
        write("key.pem", key);
        write("entries.ldif", entries);
        write("slapd.conf", &(configuration(&folder) + more));
        let add = Command::new("/usr/sbin/slapadd")
            .arg("-f")
            .arg(folder.join("slapd.conf"))
            .arg("-l")
            .arg(folder.join("entries.ldif"))
            .output();
        let add = add.expect("slapadd");
        assert!(add.status.success(), "{}", String::from_utf8_lossy(&add.stderr));
        let (port, port_tls) = (free_port(), free_port());
        let mut server = Command::new("/usr/sbin/slapd");
        server.arg("-f").arg(folder.join("slapd.conf")).args(["-d", "0", "-h"]);
        server.arg(format!("ldap://127.0.0.1:{port}/ ldaps://127.0.0.1:{port_tls}/"));
        let slapd = Slapd { guard: guard::guard(&folder, "TERM", &server), folder, port, port_tls };
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port_tls)).is_err() {
            assert!(Instant::now() < until, "slapd does not listen on port {port_tls}");
            thread::sleep(Duration::from_millis(50));
        }
        slapd
    }

    /// Returns the address without encryption, on which a client may start TLS.
    pub fn url(&self) -> String {
        format!("ldap://localhost:{}", self.port)
    }

    /// Returns the address with TLS.
    pub fn url_tls(&self) -> String {
        format!("ldaps://localhost:{}", self.port_tls)
    }
}

impl Drop for Slapd {
    fn drop(&mut self) {
        guard::end(&mut self.guard);
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// Returns a configuration with which users may bind, and only they may read.
fn configuration(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "include /etc/ldap/schema/core.schema\n\
         include /etc/ldap/schema/cosine.schema\n\
         include /etc/ldap/schema/inetorgperson.schema\n\
         pidfile {folder}/slapd.pid\n\
         modulepath /usr/lib/ldap\n\
         moduleload back_mdb\n\
         TLSCertificateFile {folder}/certificate.pem\n\
         TLSCertificateKeyFile {folder}/key.pem\n\
         database mdb\n\
         maxsize 10485760\n\
         suffix \"dc=example,dc=org\"\n\
         directory {folder}/db\n\
         access to attrs=userPassword by anonymous auth by * none\n\
         access to * by users read by anonymous auth by * none\n"
    )
}

/// The time within which it must listen.
const PATIENCE: Duration = Duration::from_secs(10);
