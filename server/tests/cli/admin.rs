//! Administrators, with and without a running server.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::process::Command;

use super::rig::{CliRig, FREE_PORTS};

#[test]
fn administrators_come_and_go() {
    let rig = CliRig::new();
    rig.run(&["admin", "add", "romeo@localhost"]).expect_failure(1, "there is no account romeo@localhost");
    rig.run_with(&["user", "add", "romeo@localhost", "--password-stdin", "--allow-short"], "secret\n").fine();
    rig.run(&["admin", "add", "romeo@example.org"]).expect_failure(1, "\"example.org\" has no administrators here");
    rig.run(&["admin", "add", "localhost"]).expect_failure(1, "has no name before an @");
    rig.run(&["admin", "remove", "romeo@localhost"]).expect_failure(1, "romeo@localhost doesn't administer localhost");
    let added = rig.run(&["admin", "add", "Romeo@localhost"]).fine();
    assert_eq!(added, "romeo@localhost now administers localhost\n");
    assert_eq!(rig.run(&["admin", "list"]).fine(), "romeo@localhost\tlocalhost\tnamed\n");
    rig.run(&["admin", "remove", "romeo@localhost"]).fine();
    assert_eq!(rig.run(&["admin", "list"]).fine(), "");
}

#[test]
fn the_configuration_names_some_and_is_changed_there() {
    let rig = CliRig::new();
    let tables = "[modules.administration]\nadmins = [\"juliet@localhost\"]\n";
    rig.write("rookery.toml", &format!("domains = [\"localhost\", \"b.example\"]\n{FREE_PORTS}{tables}"));
    rig.run_with(&["user", "add", "romeo@localhost", "--password-stdin", "--allow-short"], "secret\n").fine();
    rig.run(&["admin", "add", "romeo@localhost", "--domain", "b.example"]).fine();
    let listed = rig.run(&["admin", "list"]).fine();
    assert_eq!(
        listed.lines().collect::<Vec<_>>(),
        [
            "juliet@localhost\tlocalhost\tconfiguration",
            "juliet@localhost\tb.example\tconfiguration",
            "romeo@localhost\tb.example\tnamed"
        ]
    );
    rig.run(&["admin", "remove", "juliet@localhost"]).expect_failure(1, "take it out of `admins`");
}

#[test]
fn a_server_that_nobody_administers_says_so() {
    let rig = CliRig::new();
    rig.run_with(&["user", "add", "romeo@localhost", "--password-stdin", "--allow-short"], "secret\n").fine();
    let (server, _) = rig.serve();
    let said = server.log();
    assert!(said.contains("the server has no administrator"), "{said}");
    rig.run(&["admin", "add", "romeo@localhost"]).fine();
    let (server, _) = rig.serve();
    let said = server.log();
    assert!(!said.contains("nobody administers"), "{said}");
}

#[test]
fn commands_make_no_data_folder() {
    let rig = CliRig::fresh();
    for command in [
        &["user", "list"][..],
        &["user", "add", "romeo@localhost", "--password-stdin", "--allow-short"],
        &["user", "remove", "romeo@localhost"],
        &["admin", "list"],
        &["token", "list"],
        &["store", "migrate"],
        &["web", "install", "--from", "nowhere"],
    ] {
        rig.run_with(command, "secret\n").expect_failure(1, "there is no data folder ");
        assert!(!rig.path("rookery-data").exists(), "{command:?}");
    }
}

rookery_needs::needing! { "cli.root": root_leaves_files_to_the_servers_user, what_root_restores_for_the_service_is_its_users }

mod test {
    use super::*;

    /// Prepares a server as root, and restores one, before the server's own user starts it.
    pub fn root_leaves_files_to_the_servers_user() {
        let rig = CliRig::empty();
        let folders = ["rookery-data", "restored"].map(|name| rig.path(name));
        for folder in &folders {
            fs::create_dir(folder).expect("a folder");
            chown(folder, Some(SOMEBODY), Some(SOMEBODY)).expect("this test needs root");
        }
        rig.run(&["user", "list"]).fine();
        rig.run_with(&["user", "add", "alice@localhost", "--password-stdin"], "secret-secret\n").fine();
        rig.run(&["backup", "all.tar.gz"]).fine();
        rig.run(&["restore", "all.tar.gz", "--data-dir", "restored"]).fine();
        for folder in &folders {
            assert!(folder.join("rookery.db").exists());
            belongs_to_somebody(folder);
        }
        // A folder that the command creates is for the owner of the folder around it, if that isn't
        // root.
        let said = rig.run(&["restore", "all.tar.gz", "--data-dir", "restored/deep/new"]).fine();
        assert!(!said.contains("chown"), "{said}");
        belongs_to_somebody(&rig.path("restored/deep"));
        let said = rig.run(&["restore", "all.tar.gz", "--data-dir", "roots"]).fine();
        assert!(said.contains("run `chown -R USER: roots`"), "{said}");
        // Whose folder it is doesn't matter to files elsewhere.
        assert_ne!(fs::metadata(rig.path("all.tar.gz")).expect("the backup").uid(), SOMEBODY);
    }

    /// Restores on a machine whose service has a user, after its data folder was lost. Only the
    /// command sees the mounts.
    pub fn what_root_restores_for_the_service_is_its_users() {
        let rig = CliRig::new();
        rig.run_with(&["user", "add", "alice@localhost", "--password-stdin"], "secret-secret\n").fine();
        rig.run(&["backup", "all.tar.gz"]).fine();
        let users = fs::read_to_string("/etc/passwd").expect("the users");
        let others: String =
            users.lines().filter(|line| !line.starts_with("rookery:")).map(|line| format!("{line}\n")).collect();
        rig.write("passwd", &format!("{others}rookery:x:{SERVICE}:{SERVICE}::/var/lib/rookery:/usr/sbin/nologin\n"));
        let script = "mount --bind passwd /etc/passwd && mount -t tmpfs none /var/lib && \
                      $0 restore all.tar.gz --data-dir /var/lib/rookery && find /var/lib/rookery -printf 'owner %U:%G %p\\n'";
        let mut alone = Command::new("unshare");
        alone.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_rookery")]).current_dir(rig.path(""));
        let output = alone.output().expect("unshare");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        assert!(!said.contains("chown"), "{said}");
        let found: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("owner ")).collect();
        assert!(found.iter().any(|line| line.ends_with("rookery.db")), "{said}");
        assert!(found.iter().all(|line| line.starts_with(&format!("{SERVICE}:{SERVICE} "))), "{said}");
    }

    fn belongs_to_somebody(path: &Path) {
        let found = fs::symlink_metadata(path).expect("a file");
        assert_eq!((found.uid(), found.gid()), (SOMEBODY, SOMEBODY), "{}", path.display());
        if found.is_dir() {
            fs::read_dir(path).expect("a folder").flatten().for_each(|entry| belongs_to_somebody(&entry.path()));
        }
    }

    /// The user that Debian calls `nobody`.
    const SOMEBODY: u32 = 65534;
    const SERVICE: u32 = 61_234;
}
