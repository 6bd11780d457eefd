//! Logins and contacts from a directory: Debian's slapd.

use rcgen::{CertificateParams, KeyPair};
use rookery_needs::Slapd;

use super::logins::{LoginStream, says, with};
use super::rig::CliRig;

rookery_needs::needing! {
    "cli.ldap": users_of_a_directory_log_in, members_of_a_group_find_each_other, a_limit_of_a_directory_is_named
}

/// Starts a directory with two users in a group, one outside of it, and an entry for the server.
fn directory(rig: &CliRig) -> Slapd {
    directory_with(rig, "")
}

/// Starts such a directory with additional lines of configuration.
fn directory_with(rig: &CliRig, more: &str) -> Slapd {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("a certificate").pem();
    rig.write("directory.pem", &certificate);
    rig.write("own.password", "of ours\n");
    Slapd::start_with(ENTRIES, &certificate, &key.serialize_pem(), more)
}

mod test {
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    use super::*;

    pub fn users_of_a_directory_log_in() {
        let rig = CliRig::fresh();
        let slapd = directory(&rig);
        let search = "base = \"ou=people,dc=example,dc=org\"\nbind_dn = \"cn=rookery,dc=example,dc=org\"\n\
                      bind_password_file = \"own.password\"\n";
        let named = "dn = \"uid=%u,ou=people,dc=example,dc=org\"\n";
        for (url, more) in [
            (slapd.url_tls(), named.to_owned()),
            (slapd.url_tls(), search.to_owned()),
            (slapd.url(), format!("start_tls = true\n{search}")),
            (slapd.url(), named.to_owned()),
        ] {
            let table = format!("[domain.localhost.login]\nldap = \"{url}\"\ntrusted = \"directory.pem\"\n{more}");
            rig.write("rookery.toml", &with(&table));
            says(&rig.run(&["check"]).out, &format!("localhost: {url} checks passwords"));
            let (server, said) = rig.serve();
            let mut stream = LoginStream::open(&said, "localhost");
            says(&stream.by_password("juliet", "wrong"), "<not-authorized");
            says(&stream.by_password("nobody", "right"), "<not-authorized");
            says(&stream.by_password("*", "right"), "<not-authorized");
            says(&stream.by_password("juliet", "right"), "<success");
            assert!(stream.bind().starts_with("juliet@localhost/"));
            assert_eq!(server.stop(), 0);
        }
        // A directory that presents another certificate gets no password.
        let table = format!("[domain.localhost.login]\nldap = \"{}\"\n{named}", slapd.url_tls());
        rig.write("rookery.toml", &with(&table));
        says(&rig.run(&["check"]).out, "nobody could log in to localhost at the moment");
        let (server, said) = rig.serve();
        says(&LoginStream::open(&said, "localhost").by_password("juliet", "right"), "<temporary-auth-failure");
        assert_eq!(server.stop(), 0);
    }

    /// Writes a configuration that reads groups below an entry.
    fn reads_groups(rig: &CliRig, slapd: &Slapd, groups: &str) {
        let table = format!(
            "[domain.localhost.login]\nldap = \"{}\"\ntrusted = \"directory.pem\"\n\
             base = \"ou=people,dc=example,dc=org\"\nbind_dn = \"cn=rookery,dc=example,dc=org\"\n\
             bind_password_file = \"own.password\"\n{groups}",
            slapd.url_tls()
        );
        rig.write("rookery.toml", &with(&table));
    }

    /// Leaves rosters as they are if the directory has more entries than it returns to us; the log
    /// says what can be done.
    pub fn a_limit_of_a_directory_is_named() {
        let rig = CliRig::fresh();
        let slapd = directory_with(&rig, "sizelimit 2\n");
        reads_groups(&rig, &slapd, "groups_base = \"dc=example,dc=org\"\ngroups_filter = \"(cn=*)\"\n");
        let (server, said) = rig.serve();
        let mut stream = LoginStream::open(&said, "localhost");
        says(&stream.by_password("juliet", "right"), "<success");
        let until = Instant::now() + PATIENCE;
        while !rig.run(&["log"]).out.contains("raise its limit for us, or narrow the filter") {
            assert!(Instant::now() < until, "{}", rig.run(&["log"]).out);
            sleep(Duration::from_millis(100));
        }
        assert_eq!(server.stop(), 0);
    }

    pub fn members_of_a_group_find_each_other() {
        let rig = CliRig::fresh();
        let slapd = directory(&rig);
        reads_groups(&rig, &slapd, "groups_base = \"ou=groups,dc=example,dc=org\"\n");
        let (server, said) = rig.serve();
        let enter = |name: &str| {
            let mut stream = LoginStream::open(&said, "localhost");
            says(&stream.by_password(name, "right"), "<success");
            stream.bind();
            stream
        };
        let mut juliet = enter("juliet");
        let roster = "<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>";
        // The groups may still be loading; then the clients are notified later.
        let mut found = juliet.ask(roster, "</iq>");
        while !found.contains("romeo@localhost") {
            found = juliet.more();
        }
        assert!(found.contains("subscription='both'") && found.contains("<group>Lovers</group>"), "{found}");
        assert!(!found.contains("tybalt"), "{found}");
        juliet.ask("<presence/>", "/>");
        let mut romeo = enter("romeo");
        romeo.say("<presence/>");
        let mut seen = juliet.more();
        while !seen.contains("from='romeo@localhost/") {
            seen = juliet.more();
        }
        let listed = enter("tybalt").ask(roster, "id='r'");
        assert!(!listed.contains("romeo"), "{listed}");
        assert_eq!(server.stop(), 0);
    }
}

/// The time within which the groups are read.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);
const ENTRIES: &str = "\
dn: dc=example,dc=org
objectClass: dcObject
objectClass: organization
dc: example
o: Example

dn: ou=people,dc=example,dc=org
objectClass: organizationalUnit
ou: people

dn: ou=groups,dc=example,dc=org
objectClass: organizationalUnit
ou: groups

dn: cn=rookery,dc=example,dc=org
objectClass: applicationProcess
objectClass: simpleSecurityObject
cn: rookery
userPassword: of ours

dn: uid=juliet,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
uid: juliet
cn: Juliet
sn: Capulet
userPassword: right

dn: cn=Romeo Montague,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
uid: romeo
cn: Romeo Montague
sn: Montague
userPassword: right

dn: uid=tybalt,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
uid: tybalt
cn: Tybalt
sn: Capulet
userPassword: right

dn: cn=Lovers,ou=groups,dc=example,dc=org
objectClass: groupOfNames
cn: Lovers
member: uid=juliet,ou=people,dc=example,dc=org
member: cn=Romeo Montague,ou=people,dc=example,dc=org
member: uid=gone,ou=people,dc=example,dc=org
";
