//! Links that admit a person.

use super::rig::{CliRig, FREE_PORTS};

#[test]
fn links_are_made_unless_the_configuration_forbids_them() {
    let rig = CliRig::new();
    let with = |tables: &str| rig.write("rookery.toml", &format!("{FREE_PORTS}{tables}"));
    with("[modules.register]\nenabled = false\n");
    rig.run(&["user", "invite", "localhost"]).expect_failure(1, "links need the module `register`");
    with("[domain.localhost.login]\nanonymous = true\n");
    rig.run(&["user", "invite", "localhost"])
        .expect_failure(1, "[domain.\"localhost\".login] says who has an account there");
    with("");
    let link = rig.run(&["user", "invite", "localhost"]).fine();
    assert!(link.starts_with("xmpp:localhost?register;preauth=") && link.trim_end().len() == 58, "{link}");
    let named = rig.run(&["user", "invite", "romeo@localhost", "--days", "1"]).fine();
    assert!(named.starts_with("xmpp:romeo@localhost?register;preauth="), "{named}");
    assert_ne!(link, rig.run(&["user", "invite", "localhost"]).fine());
    rig.run(&["user", "reset-link", "romeo@localhost"]).expect_failure(1, "there is no account romeo@localhost");
    rig.run_with(&["user", "add", "romeo@localhost", "--password-stdin", "--allow-short"], "secret\n").fine();
    rig.run(&["user", "invite", "romeo@localhost"]).expect_failure(1, "romeo@localhost already exists");
    let reset = rig.run(&["user", "reset-link", "romeo@localhost"]).fine();
    assert!(reset.starts_with("xmpp:romeo@localhost?register;preauth="), "{reset}");
    rig.run(&["user", "invite", "example.org"]).expect_failure(1, "a domain of this server");
}

#[test]
fn links_lead_to_a_page_where_browsers_find_one() {
    let rig = CliRig::new();
    rig.write("rookery.toml", "[listen]\nweb_tls = [\"127.0.0.1:21443\"]\n");
    let ended = rig.run(&["user", "invite", "localhost"]);
    assert!(ended.err.contains("xmpp:localhost?register;preauth="), "{}", ended.err);
    let link = ended.fine();
    let token = link.trim_end().strip_prefix("https://localhost:21443/invite/");
    assert_eq!(token.map(str::len), Some(26), "{link}");
    rig.run_with(&["user", "add", "romeo@localhost", "--password-stdin", "--allow-short"], "secret\n").fine();
    rig.write("rookery.toml", "[web]\npublic_host = \"chat.example.org\"\n");
    let link = rig.run(&["user", "reset-link", "romeo@localhost"]).fine();
    assert!(link.starts_with("https://chat.example.org/reset/"), "{link}");
}
