//! The operator's choices about settings, and the messages where something for them is missing.

use std::fs;
use std::path::PathBuf;

use rookery_dpm::authority::{AccessFiles, Attempt, Audit, AuditFile};
use rookery_dpm::status::Status;
use rookery_dpm::time::Moment;

#[test]
fn missing_files_are_reported_and_refuse_only_settings() {
    let (authority, words) = AccessFiles::default().open().expect("readings need nothing");
    assert!(authority.acceptor.is_none());
    assert!(words.len() == 1 && words[0].contains("--keytab"), "{words:?}");
    assert!(!AccessFiles::default().wants_settings(), "that is no fault");
    // No such file, or no library: both are told in words.
    let access = AccessFiles {
        keytab: Some(file("nowhere.keytab")),
        principal: Some("daeset/localhost@FNAL.GOV".into()),
        ..AccessFiles::default()
    };
    let (authority, words) = access.open().expect("readings need nothing");
    assert!(authority.acceptor.is_none() && access.wants_settings());
    assert!(
        words.len() == 1 && words[0].starts_with("Settings are refused: ") && words[0].contains("nowhere.keytab"),
        "{words:?}"
    );
    let access = AccessFiles { principal: Some("daeset".into()), ..access };
    assert!(access.open().expect("readings need nothing").1[0].contains("daeset/dpm.example.org"));
}

#[test]
fn a_wrong_roles_file_or_an_unwritable_log_stops_the_start() {
    let roles = file("wrong-roles.toml");
    fs::write(&roles, "[[role]]\nname = 'a'\nprincipals = ['nobody']\ndevices = []\n").expect("a file");
    let said = AccessFiles { roles: Some(roles), ..AccessFiles::default() }.open().expect_err("a mistake");
    assert!(said.contains("wrong-roles.toml: line 3, role.principals"), "{said}");
    let said =
        AccessFiles { roles: Some(file("no-roles.toml")), ..AccessFiles::default() }.open().expect_err("no file");
    assert!(said.contains("no-roles.toml"), "{said}");
    let log = file("no/such/folder/audit.log");
    let said = AccessFiles { audit: Some(log), ..AccessFiles::default() }.open().expect_err("no folder");
    assert!(said.contains("audit.log"), "{said}");
}

#[test]
fn a_renamed_log_continues_in_a_new_file() {
    let (path, older) = (file("audit.log"), file("audit.log.1"));
    let _ = fs::remove_file(&path);
    let mut log = AuditFile::open(path.clone()).expect("a file");
    let now = Moment { millis: 0, unix_millis: 1_795_252_989_805 };
    let attempt = Attempt {
        principal: None,
        role: None,
        from: None,
        what: "Z:CUBE_X.SETTING@N".into(),
        value: None,
        verdict: Status::PRIV,
    };
    log.record(&attempt, now);
    fs::rename(&path, &older).expect("it is renamed");
    log.record(&attempt, now);
    let line = "2026-11-21T09:23:09.805Z - role=- from=- Z:CUBE_X.SETTING@N: [17 -17] DPM_PRIV\n";
    for path in [path, older] {
        assert_eq!(fs::read_to_string(&path).expect("a file"), line);
        let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(&path).expect("a file"));
        assert_eq!(mode & 0o777, 0o600);
    }
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}
