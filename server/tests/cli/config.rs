//! The configuration as the command line sees it.

use super::rig::CliRig;

#[test]
fn the_example_starts_a_server_like_none() {
    let rig = CliRig::new();
    let example = rig.run(&["config", "example"]).fine();
    rig.write("rookery.toml", &example.replace("[::]:5222", "127.0.0.1:0").replace("[::]:5223", "127.0.0.1:0"));
    let (server, said) = rig.serve();
    assert!(said.contains("admin@localhost"), "{said}");
    assert_eq!(server.stop(), 0);
}

#[test]
fn the_example_has_every_module() {
    let example = CliRig::new().run(&["config", "example"]).fine();
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
    let rig = CliRig::fresh();
    rig.write("rookery.toml", "shards = 1\n\n[limits]\nstanza_byte = 5\n[modules.ping]\nenabled = \"yes\"\n");
    for command in [&["serve"][..], &["user", "list"], &[]] {
        let ended = rig.run(command);
        assert!(
            ended
                .err
                .contains("rookery.toml:4: limits.stanza_byte: there is no such key; did you mean `stanza_bytes`?")
        );
        ended.expect_failure(78, "rookery.toml:6: modules.ping.enabled: expected true or false, not \"yes\"");
    }
    assert!(!rig.path("rookery-data").exists(), "nothing is made for a configuration that is wrong");
}

#[test]
fn what_is_no_toml_has_a_line_too() {
    let rig = CliRig::new();
    rig.write("rookery.toml", "shards = 1\nshards = 2\n");
    rig.run(&[]).expect_failure(78, "rookery.toml:2: this is not TOML: ");
    rig.run(&["--config", "missing.toml"]).expect_failure(2, "cannot be used multiple times");
    std::fs::remove_file(rig.path("rookery.toml")).expect("removed");
    rig.run(&["--config", "missing.toml"]).expect_failure(78, "missing.toml: cannot be read");
}

#[test]
fn variables_give_keys_to_every_command_and_win_over_the_file() {
    let rig = CliRig::new();
    let with = |arguments: &[&str], variables: &[(&str, &str)]| {
        let output = rig.command(arguments).envs(variables.iter().copied()).output().expect("a process");
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let given = [("ROOKERY__DOMAINS", "a.test, b.test"), ("ROOKERY__LISTEN__WEB", "[]"), ("ROOKERY__PROFILE", "")];
    let (server, said) = rig.serve_in(&given);
    assert!(said.contains("Account     admin@a.test") && said.contains("and ROOKERY__DOMAINS, ROOKERY__LISTEN__WEB"));
    assert!(!said.contains("(HTTP)"), "{said}");
    let (code, listed) = with(&["user", "list"], &given);
    assert_eq!((code, listed.as_str()), (Some(0), "admin@a.test\n"));
    assert_eq!(server.stop(), 0);
    let (_, shown) = with(&["config", "show", "--given"], &given);
    let lines = ["domains = [\"a.test\", \"b.test\"]  # ROOKERY__DOMAINS", "listen.web = []  # ROOKERY__LISTEN__WEB"];
    assert!(lines.iter().all(|line| shown.lines().any(|shown| shown == *line)), "{shown}");
    assert!(shown.contains("listen.c2s = [\"127.0.0.1:0\"]  # rookery.toml:"), "{shown}");
    let (_, json) = with(&["config", "show", "--given", "--json"], &given);
    assert!(json.contains("{\"variable\":\"ROOKERY__DOMAINS\"}"), "{json}");
    let (code, said) = with(&["serve"], &[("ROOKERY__SHARDS", "many"), ("ROOKERY__TLS__ACEM__ENABLED", "true")]);
    assert_eq!(code, Some(78));
    for words in [
        "ROOKERY__SHARDS: shards: expected a value from 0 to 1024, not \"many\"",
        "ROOKERY__TLS__ACEM__ENABLED: tls.acem: there is no such key",
    ] {
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_certificate_that_cannot_be_used_is_the_configurations_fault() {
    let rig = CliRig::new();
    let tls = "[tls]\ncertificate = \"missing.pem\"\nkey = \"missing.key\"\n";
    rig.write("rookery.toml", &format!("{}{tls}", super::rig::FREE_PORTS));
    rig.run(&[]).expect_failure(78, "missing.pem");
}

#[test]
fn help_has_examples() {
    let rig = CliRig::new();
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
    assert!(rig.run(&["--help"]).fine().contains("78   configuration"));
}

#[test]
fn the_values_in_force_are_shown_with_where_they_are_from() {
    let rig = CliRig::new();
    let component = "[component.\"bridge.localhost\"]\nsecret = \"nobody guesses this\"\n";
    let upload = "[modules.upload]\nmax_bytes = \"7 MiB\"\n";
    rig.write("rookery.toml", &format!("shards = 2\n{}{component}{upload}", super::rig::FREE_PORTS));
    let shown = rig.run(&["config", "show"]).fine();
    for line in [
        "shards = 2  # rookery.toml:1",
        "limits.login_seconds = 60  # default",
        "modules.upload.max_bytes = \"7 MiB\"  # rookery.toml:13",
        "component.\"bridge.localhost\".secret = \"***\"  # rookery.toml:11",
    ] {
        assert!(shown.lines().any(|found| found == line), "{line:?} is not in:\n{shown}");
    }
    assert!(!shown.contains("nobody guesses"), "{shown}");
    let given = rig.run(&["config", "show", "--given", "--json"]).fine();
    let given: Vec<serde_json::Value> = given.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let keys: Vec<_> = given.iter().filter_map(|item| item["key"].as_str()).collect();
    assert_eq!(keys[..3], ["shards", "listen.c2s", "listen.c2s_tls"], "{keys:?}");
    assert_eq!(given[0]["from"], serde_json::json!({ "file": "rookery.toml", "line": 1 }));
    assert_eq!(given[1]["value"], serde_json::json!(["127.0.0.1:0"]));
    // The output is a valid configuration.
    rig.write("rookery.toml", &shown.replace("***", "nobody guesses this"));
    assert_eq!(rig.run(&["config", "show"]).fine().lines().count(), shown.lines().count());
}

#[test]
fn the_running_server_is_compared_with_its_file() {
    let rig = CliRig::fresh();
    rig.run(&["config", "diff"]).expect_failure(1, "there is no data folder");
    let (_server, _) = rig.serve();
    assert_eq!(rig.run(&["config", "diff"]).fine(), "the server runs by rookery.toml\n");
    rig.write("rookery.toml", &format!("shards = 3\nprofile = true\n{}", super::rig::FREE_PORTS));
    let rows = |text: &str| -> Vec<Vec<String>> {
        text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    };
    let told = rows(&rig.run(&["config", "diff"]).fine());
    assert_eq!(told[1], ["profile", "false", "true", "a", "reload"]);
    assert_eq!(told[2], ["shards", "0", "3", "a", "restart"]);
    rig.run(&["reload"]).fine();
    let left = rig.run(&["config", "diff", "--json"]).fine();
    let left: serde_json::Value = serde_json::from_str(left.trim_end()).expect("one change");
    let wanted = serde_json::json!({ "key": "shards", "running": "0", "file": "3", "needs_restart": true });
    assert_eq!(left, wanted);
    rig.write("rookery.toml", "shard = 3");
    rig.run(&["config", "diff"]).expect_failure(1, "rookery.toml:1: shard: there is no such key");
}

#[test]
fn what_differs_from_the_defaults_is_shown_with_its_place() {
    let rig = CliRig::new();
    rig.write("rookery.toml", "shards = 0\n[limits]\nresources_per_user = 3\n[modules.ping]\nenabled = true\n");
    let shown = rig.run(&["config", "show", "--changed"]).fine();
    assert_eq!(shown, "limits.resources_per_user = 3  # rookery.toml:3\n");
    rig.write("rookery.toml", "");
    assert_eq!(rig.run(&["config", "show", "--changed"]).fine(), "");
}

#[test]
fn the_example_ends_with_what_few_servers_do() {
    let example = CliRig::new().run(&["config", "example"]).fine();
    let last = example.lines().rfind(|line| line.starts_with('['));
    assert_eq!(last, Some("[dpm]"));
    assert!(example.find("\n[limits]") < example.find("\n[modules.ping]"));
}
