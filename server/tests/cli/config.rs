//! The configuration as the command line sees it.

use super::rig::Rig;

#[test]
fn the_example_starts_a_server_like_none() {
    let rig = Rig::new();
    let example = rig.run(&["config", "example"]).fine();
    rig.write("rookery.toml", &example.replace("[::]:5222", "127.0.0.1:0").replace("[::]:5223", "127.0.0.1:0"));
    let (server, said) = rig.serve();
    assert!(said.contains("admin@localhost"), "{said}");
    assert_eq!(server.stop(), 0);
}

#[test]
fn the_example_has_every_module() {
    let example = Rig::new().run(&["config", "example"]).fine();
    for module in rookery_modules::table(&rookery_modules::Shared::default()) {
        let head = format!("\n[modules.{}]\nenabled = {}\n", module.name(), module.on_by_default());
        assert!(example.contains(&head), "{head}");
        for option in module.options() {
            assert!(example.contains(&format!("\n{} = ", option.key)), "{}", option.key);
        }
    }
}

#[test]
fn mistakes_have_a_line_and_a_guess_and_their_own_exit_code() {
    let rig = Rig::fresh();
    rig.write("rookery.toml", "shards = 1\n\n[limits]\nstanza_byte = 5\n[modules.ping]\nenabled = \"yes\"\n");
    for command in [&["serve"][..], &["user", "list"], &[]] {
        let ended = rig.run(command);
        assert!(
            ended
                .err
                .contains("rookery.toml:4: limits.stanza_byte: there is no such key; did you mean `stanza_bytes`?")
        );
        ended.failed(78, "rookery.toml:6: modules.ping.enabled: true or false is expected, not \"yes\"");
    }
    assert!(!rig.path("rookery-data").exists(), "nothing is made for a configuration that is wrong");
}

#[test]
fn what_is_no_toml_has_a_line_too() {
    let rig = Rig::new();
    rig.write("rookery.toml", "shards = 1\nshards = 2\n");
    rig.run(&[]).failed(78, "rookery.toml:2: this is not TOML: ");
    rig.run(&["--config", "missing.toml"]).failed(2, "cannot be used multiple times");
    std::fs::remove_file(rig.path("rookery.toml")).expect("removed");
    rig.run(&["--config", "missing.toml"]).failed(78, "missing.toml: cannot be read");
}

#[test]
fn a_certificate_that_cannot_be_used_is_the_configurations_fault() {
    let rig = Rig::new();
    let tls = "[tls]\ncertificate = \"missing.pem\"\nkey = \"missing.key\"\n";
    rig.write("rookery.toml", &format!("{}{tls}", super::rig::FREE_PORTS));
    rig.run(&[]).failed(78, "missing.pem");
}

#[test]
fn help_has_examples() {
    let rig = Rig::new();
    let commands: [&[&str]; 9] = [
        &[],
        &["serve"],
        &["user"],
        &["user", "add"],
        &["user", "passwd"],
        &["user", "remove"],
        &["user", "import"],
        &["config", "example"],
        &["check"],
    ];
    for command in commands {
        let help = rig.run(&[command, &["--help"]].concat()).fine();
        assert!(help.contains("Examples:\n  ") && help.contains("rookery"), "{help}");
    }
    assert!(rig.run(&["--help"]).fine().contains("78   the configuration"));
}
