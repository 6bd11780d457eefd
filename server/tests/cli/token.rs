//! Tokens of the HTTP API.

use super::rig::CliRig;

#[test]
fn tokens_are_made_listed_and_revoked() {
    let rig = CliRig::new();
    let secret =
        rig.run(&["token", "add", "desk", "--scope", "users:read,users:write", "--domain", "localhost"]).fine();
    assert!(secret.starts_with("rookery_") && secret.trim_end().len() == 72, "{secret}");
    rig.run(&["token", "add", "desk", "--scope", "users:read"]).expect_failure(1, "there is already a token desk");
    rig.run(&["token", "add", "other", "--scope", "everything"]).expect_failure(1, "the scopes are: users:read");
    rig.run(&["token", "add", "other", "--scope", "users:read", "--domain", "b.example"])
        .expect_failure(1, "a domain of this server");
    rig.run(&["token", "add", "a b", "--scope", "users:read"]).expect_failure(1, "can't be the name of a token");
    let listed = rig.run(&["token", "list"]).fine();
    assert!(listed.starts_with("desk\t") && listed.contains("\tlocalhost\tusers:read,users:write\n"), "{listed}");
    assert!(!listed.contains(secret.trim_end()));
    rig.run(&["token", "revoke", "desk"]).fine();
    rig.run(&["token", "revoke", "desk"]).expect_failure(1, "there is no token desk");
    assert_eq!(rig.run(&["token", "list"]).fine(), "");
}
