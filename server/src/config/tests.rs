//! Tests the parser with the table of keys, and every mistake that involves two keys.

use rookery_federation::PeerPolicy;
use rookery_hub::{Conflict, Hooks, OptionSpec};

use super::example::{SHORT, SHORT_MODULES, short};
use super::keys::{TABLES, all};
use super::*;

/// A module with an option of every kind.
struct ConfigSample;

impl Module for ConfigSample {
    fn name(&self) -> &'static str {
        "sample"
    }

    fn summary(&self) -> &'static str {
        "an example"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0000", "1.0")]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &[
            OptionSpec { key: "loud", default: || Value::Switch(false), doc: "whether", check: |_| Ok(()) },
            OptionSpec { key: "words", default: || Value::List(vec!["a".into()]), doc: "which", check: |_| Ok(()) },
            OptionSpec { key: "greeting", default: || Value::Text("\"hi\"".into()), doc: "what", check: |_| Ok(()) },
            OptionSpec { key: "most_bytes", default: || Value::Number(2048), doc: "how large", check: |_| Ok(()) },
            OptionSpec { key: "limit", default: || Value::Number(7), doc: "how many", check: below_ten },
        ]
    }

    fn install(&self, _: &mut Hooks<'_>) {}
}

fn below_ten(value: &Value) -> Result<(), String> {
    if matches!(value, Value::Number(0..10)) { Ok(()) } else { Err("expected a number below 10".into()) }
}

fn table() -> Vec<Box<dyn Module>> {
    vec![Box::new(ConfigSample)]
}

fn parse(text: &str) -> ServerConfig {
    ServerConfig::parse(text, &table()).unwrap_or_else(|wrongs| panic!("{wrongs:?}"))
}

/// Returns the only mistake in a text, as `KEY: WHAT`.
fn mistake(text: &str) -> String {
    let wrongs = ServerConfig::parse(text, &table()).expect_err("a mistake");
    assert_eq!(wrongs.len(), 1, "{wrongs:?}");
    format!("{}: {}", wrongs[0].key, wrongs[0].what)
}

#[test]
fn the_example_says_the_defaults() {
    assert_eq!(parse(&example(&table())), ServerConfig::defaults(&table()));
    assert_eq!(parse(""), ServerConfig::defaults(&table()));
}

#[test]
fn every_key_stands_in_the_example_and_in_a_known_table() {
    let example = example(&table());
    for key in all() {
        assert!(TABLES.iter().any(|(table, _)| *table == key.table), "{}", key.name);
        let line = format!("\n{} = ", key.name);
        assert!(example.contains(&line) || example.contains(&line.replace('\n', "\n#")), "{}", key.name);
    }
}

#[test]
fn the_short_example_says_defaults_and_has_all_that_it_names() {
    let table = rookery_modules::table(&rookery_modules::Shared::default());
    let text = short(&table);
    assert_eq!(
        ServerConfig::parse(&text, &table).unwrap_or_else(|wrongs| panic!("{wrongs:?}")),
        ServerConfig::defaults(&table)
    );
    for (name, keys) in SHORT {
        let of_table = all().filter(|key| key.table == name && keys.contains(&key.name)).count();
        assert_eq!(of_table, keys.len(), "[{name}] lacks one of {keys:?}");
    }
    for (name, options) in SHORT_MODULES {
        let module = table.iter().find(|module| module.name() == name).unwrap_or_else(|| panic!("no module {name}"));
        for option in options {
            let is_known = *option == "enabled" || module.options().iter().any(|spec| spec.key == *option);
            assert!(is_known, "modules.{name} has no {option}");
        }
    }
    assert!(text.lines().count() < 100 && example(&table).lines().count() > 500, "{text}");
}

#[test]
fn examples_of_unset_keys_can_be_set() {
    let text = example(&table()).replace("\n#certificate = \"/etc/rookery/full", "\ncertificate = \"/etc/rookery/full");
    let config = parse(&text.replace("\n#key = \"/etc/rookery/priv", "\nkey = \"/etc/rookery/priv"));
    assert_eq!(config.tls.files.certificate.as_deref(), Some(Path::new("/etc/rookery/fullchain.pem")));
    assert_eq!(config.tls.files.key.as_deref(), Some(Path::new("/etc/rookery/privkey.pem")));
}

#[test]
fn values_arrive() {
    let config = parse(
        "domains = [\"Example.ORG\"]\nshards = 0x3\n[limits]\nstanza_bytes = \"1 MiB\"\noutbox_hard = 2_000_000\ndepth = 8\n\
         conflict = \"refuse-newer\"\n[login]\nmechanisms = [\"SCRAM-SHA-1\"]\n[listen]\nc2s_tls = []",
    );
    assert_eq!(config.domains[0].name, "example.org");
    assert_eq!(config.shards, 3);
    assert_eq!(config.limits.after_login.bytes, 1 << 20);
    assert_eq!(config.limits.outbox.hard, 2_000_000);
    assert_eq!((config.limits.before_login.depth, config.limits.after_login.depth), (8, 8));
    assert_eq!(config.limits.conflict, Conflict::RefuseNewer);
    assert_eq!(config.login.mechanisms, [Mechanism::ScramSha1]);
    assert_eq!(config.listen.c2s_tls, []);
}

#[test]
fn sizes_of_modules_may_be_texts() {
    let size = |text: &str| parse(&format!("[modules.sample]\n{text}")).modules["sample"].options["most_bytes"].clone();
    assert_eq!(size("most_bytes = \"10 MiB\""), Value::Number(10 << 20));
    assert_eq!(size("most_bytes = 10"), Value::Number(10));
    assert!(example(&table()).contains("\nmost_bytes = \"2 KiB\"\n"));
    assert!(
        mistake("[modules.sample]\nlimit = \"1 KiB\"").starts_with("modules.sample.limit: expected a whole number")
    );
}

#[test]
fn domain_tables_override_what_holds_for_all() {
    let config = parse(
        "[modules.sample]\nloud = true\nlimit = 1\n[domain.\"b.example\".modules.sample]\nenabled = false\nlimit = 2\n\
         [domain.\"a.example\"]",
    );
    let names: Vec<_> = config.domains.iter().map(|domain| domain.name.as_str()).collect();
    assert_eq!(names, ["b.example", "a.example"], "in the order of the text, and without the default domain");
    let sample = |at: usize| &config.domains[at].modules["sample"];
    assert!(!sample(0).enabled && sample(1).enabled);
    assert_eq!((&sample(0).options["limit"], &sample(1).options["limit"]), (&Value::Number(2), &Value::Number(1)));
    assert_eq!(sample(0).options["loud"], Value::Switch(true), "inherited");
}

#[test]
fn domains_have_other_servers_of_their_own() {
    let config = parse(
        "[federation]\nenabled = true\ndeny = [\"bad.example\"]\n[domain.\"a.example\"]\n\
         [domain.\"b.example\".federation]\nenabled = false\n[domain.\"c.example\".federation]\npolicy = \"dialback\"\n\
         deny = []\n[component.\"irc.b.example\"]\nsecret = \"0123456789\"\n[component.\"irc.example\"]\nsecret = \"0123456789\"",
    );
    let of = |at: usize| config.federation_of(&config.domains[at]);
    assert_eq!(of(0), config.federation);
    assert!(of(0).enabled && !of(1).enabled && of(2).enabled && config.federates());
    assert_eq!((of(2).policy, of(2).deny.len(), of(1).deny.len()), (PeerPolicy::Dialback, 0, 1));
    let has = |at: usize, host: &str| config.hosts_of(&config.domains[at]).contains(&host.to_owned());
    assert!(has(1, "b.example") && has(1, "irc.b.example") && !has(0, "irc.b.example") && has(0, "irc.example"));
    let one = |enabled: &str| parse(&format!("[domain.\"a.example\".federation]\nenabled = {enabled}")).federates();
    assert!(one("true") && !one("false"), "also where it is off for all");
}

#[test]
fn rules_about_servers_may_have_reasons() {
    let config = parse("[federation]\ndeny = [\"bad.example: it floods rooms\", \"*.old.example\"]");
    let reasons = config.federation.deny.iter().map(|rule| rule.rule.reason.as_deref());
    assert_eq!(reasons.collect::<Vec<_>>(), [Some("it floods rooms"), None]);
    assert_eq!(config.federation.deny[0].written, "bad.example: it floods rooms");
}

#[test]
fn domain_tables_join_the_listed_domains() {
    let text = "domains = [\"b.example\", \"a.example\"]\n[domain.\"c.example\"]\n[domain.\"A.example\".modules.sample]\n\
                enabled = false";
    let config = parse(text);
    let names: Vec<_> = config.domains.iter().map(|domain| domain.name.as_str()).collect();
    assert_eq!(names, ["b.example", "a.example", "c.example"]);
    assert!(!config.domains[1].modules["sample"].enabled);
}

#[test]
fn certificates_of_domains_come_before_those_of_all() {
    let config = parse(
        "domains = [\"a.example\"]\n[tls]\ncertificate = \"all.pem\"\nkey = \"all.key\"\n[domain.\"b.example\"]\n\
         certificate = \"b.pem\"\nkey = \"b.key\"",
    );
    let file = |at: usize| config.files_of(&config.domains[at]).map(|(certificate, _)| certificate.to_owned());
    assert_eq!((file(0), file(1)), (Some("all.pem".into()), Some("b.pem".into())));
}

#[test]
fn unknown_keys_are_refused_with_a_guess() {
    let guesses = [
        ("shard = 1", "shard: there is no such key; did you mean `shards`?"),
        ("[limit]", "limit: there is no such key; did you mean `limits`?"),
        ("[listen]\nc2s-tls = []", "listen.c2s-tls: there is no such key; did you mean `c2s_tls`?"),
        ("[log]\ndepth = 3", "log.depth: there is no such key here; it goes into [limits]"),
        ("[log]\nshards = 3", "log.shards: there is no such key here; it goes above the first [table]"),
        ("[log]\nx = 3", "log.x: there is no such key; the keys are: format, level"),
        ("[modules.smaple]", "modules.smaple: there is no such key; did you mean `sample`?"),
        ("[modules.sample]\nlimits = 1", "modules.sample.limits: there is no such key; did you mean `limit`?"),
        (
            "[domain.\"a.b\"]\ncert = 1",
            "domain.\"a.b\".cert: there is no such key; the keys are: certificate, federation, key, login, modules",
        ),
        (
            "[domain.\"a.b\".federation]\nenable = true",
            "domain.\"a.b\".federation.enable: there is no such key; did you mean `enabled`?",
        ),
    ];
    for (text, expected) in guesses {
        assert_eq!(mistake(text), expected, "{text}");
    }
}

#[test]
fn wrong_values_are_refused_with_what_is_right() {
    let cases = [
        ("shards = \"2\"", "shards: expected a value from 0 to 1024, not \"2\""),
        ("shards = -1", "shards: expected a value from 0 to 1024, not -1"),
        ("log = 3", "log: expected a table: write [log] on a line of its own, and its keys below"),
        ("domain = [\"a.b\"]", "domain: expected a table; did you mean the key `domains`?"),
        ("[domains.\"a.b\"]\n", "domains: this isn't a table; did you mean `[domain.\"NAME\"]`?"),
        (
            "[modules]\nsample = false",
            "modules.sample: expected a table: write [modules.sample] on a line of its own, and `enabled = false` below",
        ),
        (
            "[limits]\nstanza_bytes = \"10 MB\"",
            "limits.stanza_bytes: expected a size in binary units such as \"10 MiB\", not \"10 MB\"",
        ),
        ("domains = []", "domains: at least one domain is needed, such as [\"localhost\"]"),
        ("domains = [\"a.b\", \"A.b\"]", "domains: \"a.b\" is listed twice"),
        (
            "[limits]\nstanza_bytes = 9000",
            "limits.stanza_bytes: 9000 is out of range; expected a value from 10000 to \"64 MiB\"",
        ),
        ("[limits]\nconflict = \"end\"", "limits.conflict: \"end\" is not \"end-older\" or \"refuse-newer\""),
        (
            "[limits]\noutbox_soft = \"2 MiB\"",
            "limits.outbox_soft: it is larger than `outbox_hard`: 2097152 bytes and 1048576",
        ),
        ("[listen]\nc2s = []\nc2s_tls = []", "listen: no address is left to listen on; give `c2s` or `c2s_tls` one"),
        (
            "[listen]\nc2s = [\"[::]:7\"]\nc2s_tls = [\"127.0.0.1:7\"]",
            "listen.c2s_tls: port 7 is also used by `c2s` in [listen]: give each its own port",
        ),
        (
            "[dpm]\nenabled = true\ndemo = true\ngrpc = \"127.0.0.1:7\"\nchannel_access = \"0.0.0.0:7\"",
            "dpm.channel_access: port 7 is also used by `grpc` in [dpm]: give each its own port",
        ),
        (
            "[dpm]\nenabled = true\ndemo = true\nfront_ends = \"127.0.0.1:7\"\nchannel_access = \"127.0.0.1:7\"",
            "dpm.channel_access: port 7 is also used by `front_ends` in [dpm]: give each its own port",
        ),
        (
            "[listen]\nc2s = [\"[::]:7\"]\n[dpm]\nenabled = true\ndemo = true\nchannel_access = \"127.0.0.1:7\"",
            "dpm.channel_access: port 7 is also used by `c2s` in [listen]: give each its own port",
        ),
        (
            "[dpm]\nenabled = true\ndemo = true\nchannel_access = \"127.0.0.1:7\"\npv_access = \"127.0.0.1:7\"",
            "dpm.pv_access: port 7 is also used by `channel_access` in [dpm]: give each its own port",
        ),
        (
            "[dpm]\nacnetd = \"127.0.0.1:6802\"\nnode = \"0ad6\"",
            "dpm.node: the network is that of `acnetd`: leave out `node`, or `acnetd`",
        ),
        (
            "[dpm]\nacnetd = \"10.0.0.5:6802\"",
            "dpm.acnetd: \"10.0.0.5:6802\" is not an address of this machine such as \"127.0.0.1:6802\"",
        ),
        ("[dpm]\ngrpc_certificate = \"a.pem\"\ngrpc_key = \"a.key\"", "dpm.grpc_certificate: it also needs `grpc`"),
        (
            "[dpm]\ngrpc = \"127.0.0.1:7\"\ngrpc_certificate = \"a.pem\"",
            "dpm.grpc_certificate: it also needs `grpc_key`",
        ),
        ("[dpm]\ngrpc = \"127.0.0.1:7\"\ntokens = \"a.json\"", "dpm.tokens: it also needs `token_issuer`"),
        ("[dpm]\ntoken_realm = \"A.B\"", "dpm.token_realm: it also needs `tokens`"),
        ("[dpm]\ntoken_issuer = \"\"", "dpm.token_issuer: \"\" is not a name"),
        ("[listen]\nc2s = [\"[::1]:7\", \"[::1]:7\"]", "listen.c2s: [::1]:7 is listed twice"),
        ("[login]\nmechanisms = []", "login.mechanisms: nobody could log in; leave the key out for all mechanisms"),
        ("[tls]\ncertificate = \"x\"", "tls.certificate: it also needs `key`"),
        (
            "[federation]\ndnssec = true",
            "federation.dnssec: this requires name servers that you trust: list them in `dns`, such as [\"127.0.0.1:53\"]",
        ),
        (
            "[store]\narchives = \"months\"",
            "store.archives: SQLite can't partition a table: leave this at \"whole\", or set `url` to a PostgreSQL or MariaDB",
        ),
        (
            "[store]\nsearch = \"index\"",
            "store.search: SQLite has no search index: leave this at \"look\", or set `url` to a PostgreSQL or MariaDB",
        ),
        ("[store]\narchives = \"days\"", "store.archives: \"days\" is not \"whole\" or \"months\""),
        ("[modules.sample]\nlimit = 10", "modules.sample.limit: expected a number below 10"),
        ("[modules.sample]\nwords = \"a\"", "modules.sample.words: expected a list in [ ], not \"a\""),
    ];
    for (text, expected) in cases {
        assert_eq!(mistake(text), expected, "{text}");
    }
}

#[test]
fn all_mistakes_are_told_with_their_lines() {
    let text = "shards = 2000\n\n[listen]\nc2s = [\n  \"[::]:5222\",\n  \"5222\",\n]\n[log]\nlevel = \"loud\"\n";
    let wrongs = ServerConfig::parse(text, &table()).expect_err("mistakes");
    let error = ConfigError::in_text(Path::new("r.toml"), text, wrongs).to_string();
    let places: Vec<_> = error.lines().filter_map(|line| line.split_once(' ')).map(|(place, _)| place).collect();
    assert_eq!(places, ["r.toml:1:", "r.toml:6:", "r.toml:9:"]);
}

#[test]
fn plaintext_login_is_allowed_where_it_is_written() {
    let allowed = |text: &str, peer: &str| {
        let peer = peer.parse().expect("an address");
        parse(text).login.plaintext().iter().any(|network| network.contains(peer))
    };
    assert!(!allowed("", "127.0.0.1") && !allowed("", "10.0.0.1"));
    let loopback = "[login]\nplaintext_loopback = true";
    assert!(allowed(loopback, "127.0.0.1") && allowed(loopback, "::1") && !allowed(loopback, "10.0.0.1"));
    let network = "[login]\nplaintext_networks = [\"10.0.0.0/8\"]";
    assert!(allowed(network, "10.0.0.1") && !allowed(network, "127.0.0.1") && !allowed(network, "11.0.0.1"));
}

#[test]
fn an_authority_is_set_up_in_a_table_within_a_table() {
    let config = parse(
        "domains = [\"a.example\", \"b.example\"]\n[tls]\nminimum = \"1.3\"\n[tls.acme]\nenabled = true\n\
         contact = [\"mailto:a@a.example\"]\ndomains = [\"B.example\"]\n",
    );
    assert!(config.acme.enabled && config.tls.minimum == Oldest::Tls13);
    assert_eq!((config.acme.domains.as_slice(), config.acme.contacts.len()), (&["b.example".to_owned()][..], 1));
    let told = |text| mistake(&format!("[tls.acme]\n{text}"));
    assert!(told("directory = \"http://a.example/\"").starts_with("tls.acme.directory: \"http://a.example/\" is not"));
    assert!(told("contact = [\"a@b.example\"]").contains("mailto:"));
    assert_eq!(
        told("domains = [\"other.example\"]"),
        "tls.acme.domains: \"other.example\" isn't a domain of this server"
    );
    assert!(
        told("services = [\"rome\"]").starts_with("tls.acme.services: \"rome\" isn't a module with its own address")
    );
    assert!(told("enable = true").contains("did you mean `enabled`?"));
    assert!(told("enabled = true\n[listen]\nweb = []").starts_with("tls.acme.enabled: the authority connects by HTTP"));
}
