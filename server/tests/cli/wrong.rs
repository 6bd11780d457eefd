//! A hundred configurations with common mistakes: each is refused with file, line, key and the
//! remedy, by every command that reads it.

use super::rig::CliRig;

#[test]
fn a_hundred_mistakes_are_told_with_line_key_and_remedy() {
    assert!(MISTAKES.len() >= 100, "{}", MISTAKES.len());
    let rig = CliRig::empty();
    for (text, expected) in MISTAKES {
        rig.write("wrong.toml", text);
        let ended = rig.run(&["config", "show", "--config", "wrong.toml"]);
        let told: Vec<_> = ended.err.lines().filter_map(|line| line.strip_prefix("rookery: wrong.toml:")).collect();
        assert_eq!(told, *expected, "of\n{text}\n{ended:?}");
        assert_eq!(ended.code, 78, "of\n{text}");
    }
}

/// Configurations, each with its messages after the name of the file.
const MISTAKES: &[(&str, &[&str])] = &[
    ("domains = \"example.org\"", &["1: domains: expected a list in [ ], not \"example.org\""]),
    ("domains = [\"exa mple.org\"]", &["1: domains: \"exa mple.org\" is not a domain such as \"example.org\""]),
    ("domains = [\"example.org\", \"example.org\"]", &["1: domains: \"example.org\" is listed twice"]),
    (
        "domains = [\"alice@example.org\"]",
        &["1: domains: \"alice@example.org\" is not a domain such as \"example.org\""],
    ),
    (
        "domains = [\"https://example.org\"]",
        &["1: domains: \"https://example.org\" is not a domain such as \"example.org\""],
    ),
    ("domains = [\"\"]", &["1: domains: \"\" is not a domain such as \"example.org\""]),
    ("domain = \"example.org\"", &["1: domain: expected a table; did you mean the key `domains`?"]),
    ("domains = [\"example.org\"", &["1: this is not TOML: unclosed array, expected `]`"]),
    ("domains = [example.org]", &["1: this is not TOML: string values must be quoted, expected literal string"]),
    ("shards = 5000", &["1: shards: 5000 is out of range; expected a value from 0 to 1024"]),
    ("shards = 1.5", &["1: shards: expected a value from 0 to 1024, not a float"]),
    ("shards = true", &["1: shards: expected a value from 0 to 1024, not a boolean"]),
    ("profile = \"yes\"", &["1: profile: expected true or false, not \"yes\""]),
    ("[listen]\nc2s = \"5222\"", &["2: listen.c2s: expected a list in [ ], not \"5222\""]),
    (
        "[listen]\nc2s = [\"5222\"]",
        &["2: listen.c2s: \"5222\" is not an address with a port such as \"[::]:5222\" or \"127.0.0.1:5222\""],
    ),
    (
        "[listen]\nc2s = [5222]",
        &["2: listen.c2s: expected an address with a port such as \"[::]:5222\" or \"127.0.0.1:5222\", not 5222"],
    ),
    (
        "[listen]\nc2s = [\"localhost:5222\"]",
        &[
            "2: listen.c2s: \"localhost:5222\" is not an address with a port such as \"[::]:5222\" or \"127.0.0.1:5222\"",
        ],
    ),
    (
        "[listen]\nc2s = [\"[::]:99999\"]",
        &["2: listen.c2s: \"[::]:99999\" is not an address with a port such as \"[::]:5222\" or \"127.0.0.1:5222\""],
    ),
    (
        "[listen]\nc2s = [\"0.0.0.0:5222\", \"[::]:5222\"]\nc2s_tls = [\"0.0.0.0:5222\"]",
        &["2: listen.c2s: [::]:5222 and 0.0.0.0:5222 are the same port, because one of them means all addresses"],
    ),
    (
        "[listen]\nport = 5222",
        &[
            "2: listen.port: there is no such key; the keys are: bytestreams, c2s, c2s_tls, components, s2s, s2s_tls, web, web_tls",
        ],
    ),
    (
        "[listen]\ns2s = [\"[::]:5222\"]\n[federation]\nenabled = true",
        &["2: listen.s2s: port 5222 is also used by `c2s` in [listen]: give each its own port"],
    ),
    ("[listeners]\nc2s = []", &["1: listeners: there is no such key; did you mean `listen`?"]),
    ("[web]\ntitle = 3", &["2: web.title: expected a name of 1 to 60 characters, not 3"]),
    ("[web]\ntitle = \"\"", &["2: web.title: \"\" is not a name of 1 to 60 characters"]),
    ("[web]\nlogo = \"\"", &["2: web.logo: \"\" is not a file whose name ends in .svg, .png, .jpg, .jpeg or .webp"]),
    (
        "[web]\npublic_host = \"https://chat.example.org/\"",
        &[
            "2: web.public_host: \"https://chat.example.org/\" is not a host such as \"chat.example.org\" or \"example.org:5443\"",
        ],
    ),
    (
        "[web]\nhosts = [\"http://x\"]",
        &["2: web.hosts: \"http://x\" is not a name such as \"xmpp1.example.net\", without a port"],
    ),
    (
        "[web]\norigins = [\"chat.example.org\"]",
        &["2: web.origins: \"chat.example.org\" is not an origin such as \"https://chat.example.org\", or \"*\""],
    ),
    (
        "[web]\ntrusted_proxies = [\"10.0.0.0/33\"]",
        &["2: web.trusted_proxies: \"10.0.0.0/33\" is not a network such as \"10.0.0.0/8\" or \"2001:db8::/32\""],
    ),
    (
        "[web]\ntrusted_proxies = [\"proxy.example.org\"]",
        &["2: web.trusted_proxies: \"proxy.example.org\" is not a network such as \"10.0.0.0/8\" or \"2001:db8::/32\""],
    ),
    (
        "[web]\nmetrics_networks = \"127.0.0.1\"",
        &["2: web.metrics_networks: expected a list in [ ], not \"127.0.0.1\""],
    ),
    ("[web]\nconnections = 0", &["2: web.connections: 0 is out of range; expected a value from 1 to 1000000"]),
    ("[web]\nconnections = \"many\"", &["2: web.connections: expected a value from 1 to 1000000, not \"many\""]),
    ("[web]\nbosh_wait = 100000", &["2: web.bosh_wait: 100000 is out of range; expected a value from 1 to 600"]),
    ("[tls]\nkey = \"/etc/rookery/nothing.key\"", &["2: tls.key: it also needs `certificate`"]),
    ("[tls]\nminimum = \"1.1\"", &["2: tls.minimum: \"1.1\" is not \"1.2\" or \"1.3\""]),
    ("[tls]\nminimum = 1.2", &["2: tls.minimum: expected \"1.2\" or \"1.3\", not a float"]),
    (
        "[tls.acme]\nenabled = true\ncontact = [\"admin@example.org\"]",
        &["3: tls.acme.contact: \"admin@example.org\" is not an address such as \"mailto:admin@example.org\""],
    ),
    (
        "[tls.acme]\ndirectory = \"acme-v02.api.letsencrypt.org\"",
        &["2: tls.acme.directory: \"acme-v02.api.letsencrypt.org\" is not an address that begins with \"https://\""],
    ),
    (
        "[tls.acme]\ndomains = [\"elsewhere.example\"]",
        &["2: tls.acme.domains: \"elsewhere.example\" isn't a domain of this server"],
    ),
    (
        "[login]\nmechanisms = [\"SCRAM-SHA-999\"]",
        &[
            "2: login.mechanisms: \"SCRAM-SHA-999\" is not one of SCRAM-SHA-512-PLUS, SCRAM-SHA-256-PLUS, SCRAM-SHA-1-PLUS, SCRAM-SHA-512, SCRAM-SHA-256, SCRAM-SHA-1, PLAIN",
        ],
    ),
    (
        "[login]\nmechanisms = [\"DIGEST-MD5\"]",
        &[
            "2: login.mechanisms: \"DIGEST-MD5\" is not one of SCRAM-SHA-512-PLUS, SCRAM-SHA-256-PLUS, SCRAM-SHA-1-PLUS, SCRAM-SHA-512, SCRAM-SHA-256, SCRAM-SHA-1, PLAIN",
        ],
    ),
    (
        "[login]\nscram_iterations = 100",
        &["2: login.scram_iterations: 100 is out of range; expected a value from 4096 to 10000000"],
    ),
    (
        "[login]\nscram_iterations = 100000000",
        &["2: login.scram_iterations: 100000000 is out of range; expected a value from 4096 to 10000000"],
    ),
    (
        "[store]\nurl = \"postgresql\"",
        &[
            "2: store.url: the server doesn't know this database; expected \"sqlite\", \"postgres://USER@HOST/DATABASE\" or \"mysql://USER@HOST/DATABASE\"",
        ],
    ),
    (
        "[store]\nurl = \"mongodb://db/rookery\"",
        &[
            "2: store.url: the server doesn't know this database; expected \"sqlite\", \"postgres://USER@HOST/DATABASE\" or \"mysql://USER@HOST/DATABASE\"",
        ],
    ),
    (
        "[store]\nurl = \"postgres://\"",
        &["2: store.url: no host is named; write postgres://USER@HOST/DATABASE (the url of the database)"],
    ),
    (
        "[store]\nurl = \"postgres://rookery@db:port/rookery\"",
        &["2: store.url: invalid value for option `port` (the url of the database)"],
    ),
    (
        "[store]\nurl = \"sqlite\"\ntls = \"verify\"",
        &["3: store.tls: this key is for database servers: set `url` to a PostgreSQL or MariaDB, or leave the key out"],
    ),
    (
        "[store]\npassword_file = \"/etc/rookery/nothing\"",
        &[
            "2: store.password_file: this key is for database servers: set `url` to a PostgreSQL or MariaDB, or leave the key out",
        ],
    ),
    (
        "[store]\ncache = \"16 MB\"",
        &["2: store.cache: expected a size in binary units such as \"16 MiB\", not \"16 MB\""],
    ),
    ("[store]\ncache = -1", &["2: store.cache: expected a size such as 262144 or \"256 KiB\", not -1"]),
    ("[store]\ndurability = \"none\"", &["2: store.durability: \"none\" is not \"check\" or \"trust\""]),
    ("[store]\nmigrate = \"yes\"", &["2: store.migrate: \"yes\" is not \"auto\" or \"never\""]),
    (
        "[store]\narchives = \"months\"",
        &[
            "2: store.archives: SQLite can't partition a table: leave this at \"whole\", or set `url` to a PostgreSQL or MariaDB",
        ],
    ),
    ("[cluster]\nnode = \"n1\"", &["2: cluster.node: `node` and `redis` belong together: give both, or neither"]),
    (
        "[cluster]\nnode = \"n 1\"\nredis = \"redis://localhost\"",
        &["2: cluster.node: \"n 1\" is not a name of letters, digits and hyphens"],
    ),
    (
        "[cluster]\nnode = \"n1\"\nredis = \"http://localhost\"",
        &[
            "2: cluster.node: nodes share a database, but SQLite is a file on one machine: set `url` in [store] to a PostgreSQL or MariaDB",
            "3: cluster.redis: expected \"redis://…\", \"rediss://…\" or \"unix:///…\"",
        ],
    ),
    (
        "[federation]\nenabled = true\npolicy = \"tls\"",
        &["3: federation.policy: \"tls\" is not \"certificate\" or \"dialback\" or \"plain\""],
    ),
    (
        "[federation]\nexceptions = [\"old.example.net\"]",
        &[
            "2: federation.exceptions: \"old.example.net\" is not a domain and a policy, such as \"old.example.net dialback\"",
        ],
    ),
    (
        "[federation]\nexceptions = [\"old.example.net trust\"]",
        &[
            "2: federation.exceptions: \"old.example.net trust\" is not a domain and a policy, such as \"old.example.net dialback\"",
        ],
    ),
    (
        "[federation]\nallow = [\"*.example.net x\"]",
        &[
            "2: federation.allow: \"*.example.net x\" is not a domain such as \"example.net\" or \"*.example.net\", perhaps with a reason behind \": \"",
        ],
    ),
    (
        "[federation]\ndeny = [\"exa mple\"]",
        &[
            "2: federation.deny: \"exa mple\" is not a domain such as \"example.net\" or \"*.example.net\", perhaps with a reason behind \": \"",
        ],
    ),
    (
        "[federation]\nallow = [\"a.example\"]\ndeny = [\"a.example\"]",
        &["3: federation.deny: \"a.example\" is also in `allow`: remove it from one of them"],
    ),
    (
        "[federation]\ndns = [\"dns.google\"]",
        &[
            "2: federation.dns: \"dns.google\" is not an address with a port such as \"[::]:5222\" or \"127.0.0.1:5222\"",
        ],
    ),
    (
        "[federation]\ndnssec = true",
        &[
            "2: federation.dnssec: this requires name servers that you trust: list them in `dns`, such as [\"127.0.0.1:53\"]",
        ],
    ),
    (
        "[federation]\nroutes = [\"a.example\"]",
        &["2: federation.routes: \"a.example\" is not a domain and a place, such as \"example.net 192.0.2.7:5269\""],
    ),
    (
        "[federation]\nroutes = [\"a.example 192.0.2.1:nope\"]",
        &[
            "2: federation.routes: \"a.example 192.0.2.1:nope\" is not a domain and a place, such as \"example.net 192.0.2.7:5269\"",
        ],
    ),
    (
        "[federation]\nbytes_per_second = \"fast\"",
        &["2: federation.bytes_per_second: expected a size such as 262144 or \"256 KiB\", not \"fast\""],
    ),
    (
        "[component.\"bridge.localhost\"]\nroster = \"both\"",
        &["1: component.\"bridge.localhost\": it needs either a `secret` or a `secret_file`"],
    ),
    (
        "[component.\"bridge.localhost\"]\nsecret = \"\"",
        &["2: component.\"bridge.localhost\".secret: \"\" is not a text of at least 8 characters"],
    ),
    (
        "[component.\"localhost\"]\nsecret = \"x\"",
        &[
            "1: component.\"localhost\": this is the name of a domain or a service of this server; a component needs a name of its own",
            "2: component.\"localhost\".secret: \"x\" is not a text of at least 8 characters",
        ],
    ),
    (
        "[component.\"bridge.localhost\"]\nsecret = \"long enough to be one\"\nrequests = [\"http://jabber.org/protocol/pubsub perhaps\"]",
        &[
            "3: component.\"bridge.localhost\".requests: \"http://jabber.org/protocol/pubsub perhaps\" is not a namespace and \"get\", \"set\" or \"both\"",
        ],
    ),
    (
        "[limits]\nstanza_bytes = \"1 GiB\"",
        &["2: limits.stanza_bytes: \"1 GiB\" is out of range; expected a value from 10000 to \"64 MiB\""],
    ),
    (
        "[limits]\nstanza_bytes = 5",
        &["2: limits.stanza_bytes: 5 is out of range; expected a value from 10000 to \"64 MiB\""],
    ),
    ("[limits]\ndepth = 0", &["2: limits.depth: 0 is out of range; expected a value from 4 to 32"]),
    ("[limits]\nconflict = \"both\"", &["2: limits.conflict: \"both\" is not \"end-older\" or \"refuse-newer\""]),
    (
        "[limits]\noutbox_soft = \"2 MiB\"",
        &["2: limits.outbox_soft: it is larger than `outbox_hard`: 2097152 bytes and 1048576"],
    ),
    (
        "[limits]\noutbox_hard = \"1 GiB\"\noutbox_total = \"1 MiB\"",
        &[
            "2: limits.outbox_hard: it is larger than `outbox_account`: 1073741824 bytes and 134217728",
            "3: limits.outbox_account: it is larger than `outbox_total`: 134217728 bytes and 1048576",
        ],
    ),
    ("[limits]\nlogin_seconds = 0", &["2: limits.login_seconds: 0 is out of range; expected a value from 5 to 3600"]),
    (
        "[log]\nlevel = \"loud\"",
        &["2: log.level: \"loud\" is not a level such as \"info\" or \"warn,rookery_store=debug\""],
    ),
    (
        "[log]\nlevel = \"info,rookery_store=loud\"",
        &["2: log.level: \"info,rookery_store=loud\" is not a level such as \"info\" or \"warn,rookery_store=debug\""],
    ),
    ("[log]\nformat = \"xml\"", &["2: log.format: \"xml\" is not \"text\" or \"json\""]),
    (
        "[modules.archive]\ndefault = \"sometimes\"",
        &["2: modules.archive.default: must be \"always\", \"roster\" or \"never\""],
    ),
    (
        "[modules.archive]\nexpire_days = \"30 days\"",
        &["2: modules.archive.expire_days: expected a whole number from 0, not \"30 days\""],
    ),
    (
        "[modules.archive]\nexpire_days = -1",
        &["2: modules.archive.expire_days: expected a whole number from 0, not -1"],
    ),
    ("[modules.archives]\nenabled = true", &["1: modules.archives: there is no such key; did you mean `archive`?"]),
    (
        "[modules]\narchive = true",
        &[
            "2: modules.archive: expected a table: write [modules.archive] on a line of its own, and `enabled = true` below",
        ],
    ),
    (
        "[modules.administration]\nadmins = [\"admin\"]",
        &[
            "2: modules.administration.admins: \"admin\" isn't the address of an account; write e.g. \"alice@example.org\"",
        ],
    ),
    ("[modules.register]\nenabled = \"true\"", &["2: modules.register.enabled: expected true or false, not \"true\""]),
    ("[domain.localhost]\ncertificate = \"/x.pem\"", &["2: domain.\"localhost\".certificate: it also needs `key`"]),
    (
        "[dpm]\nenabled = true",
        &["2: dpm.enabled: there are no devices: set `database` to a file, or set `demo = true`"],
    ),
    (
        "[dpm]\nenabled = true\ndemo = true\nnode = \"xyz\"",
        &["4: dpm.node: \"xyz\" is not four hexadecimal digits such as \"0ad6\""],
    ),
    ("enabled = true", &["1: enabled: there is no such key here; it goes into [tls.acme]"]),
    ("[limits]\n[limits]", &["2: this is not TOML: duplicate key"]),
    ("[limits]\ndepth = 32\ndepth = 33", &["3: this is not TOML: duplicate key"]),
    ("[limits", &["1: this is not TOML: unclosed table, expected `]`"]),
    ("domains = ['localhost']]", &["1: this is not TOML: unexpected key or value, expected newline, `#`"]),
    ("[web]\nchat = 1", &["2: web.chat: expected true or false, not 1"]),
    ("[login]\nguesses_per_day = -5", &["2: login.guesses_per_day: expected a value from 10 to 1000000, not -5"]),
    ("[cluster]\nlease_seconds = 0", &["2: cluster.lease_seconds: 0 is out of range; expected a value from 2 to 60"]),
    (
        "[cluster]\npublic_host = \"n1.example.org:\"",
        &[
            "2: cluster.public_host: \"n1.example.org:\" is not a host such as \"n1.example.org\", \"n1.example.org:5223\" or \
           \"[2001:db8::1]:5222\"",
        ],
    ),
    ("[cluster]\nsteer = \"on\"", &["2: cluster.steer: \"on\" is not \"resume\" or \"login\" or \"off\""]),
    (
        "[store]\nurl = \"postgres://rookery@db.example.org/r\"\n[cluster]\nnode = \"n1\"\nredis = \"redis://localhost\"\nsteer = \"login\"",
        &[
            "6: cluster.steer: clients can't be sent to a node without its own name: set `public_host`, or leave `steer` out",
        ],
    ),
    (
        "[listen]\ncomponents = [\"bridge\"]",
        &["2: listen.components: \"bridge\" is not an address with a port such as \"[::]:5222\" or \"127.0.0.1:5222\""],
    ),
    (
        "[federation]\nburst_seconds = 0",
        &["2: federation.burst_seconds: 0 is out of range; expected a value from 1 to 3600"],
    ),
    (
        "[component.\"a b\"]\nsecret = \"long enough to be one\"",
        &["1: component.\"a b\": the domainpart is not a domain name; write it like \"bridge.example.org\""],
    ),
    (
        "[domain.\"a b\"]",
        &[
            "1: domains: at least one domain is needed, such as [\"localhost\"]",
            "1: domain.\"a b\": the domainpart is not a domain name; write it like \"example.org\"",
        ],
    ),
    ("[modules.rooms]\nhots = \"x\"", &["2: modules.rooms.hots: there is no such key; did you mean `host`?"]),
    (
        "[tls.acme]\nservices = [\"rome\"]",
        &[
            "2: tls.acme.services: \"rome\" isn't a module with its own address; those with one are: bytestreams, multicast, pubsub, rooms, upload",
        ],
    ),
    (
        "[web]\nlogo = \"/etc/rookery/logo.gif\"",
        &["2: web.logo: \"/etc/rookery/logo.gif\" is not a file whose name ends in .svg, .png, .jpg, .jpeg or .webp"],
    ),
    ("[limits]\nroster_items = \"3k\"", &["2: limits.roster_items: expected a value from 0 to 1000000, not \"3k\""]),
    ("[tls]\ncertificates = \"/x.pem\"", &["2: tls.certificates: there is no such key; did you mean `certificate`?"]),
    (
        "[store]\nurl = \"mysql://root@/x y\"",
        &["2: store.url: no host is named; write mysql://USER@HOST/DATABASE (the url of the database)"],
    ),
    (
        "[modules.push]\ncontent = \"all\"",
        &["2: modules.push.content: \"all\" must be \"none\", \"sender\" or \"body\""],
    ),
    (
        "shards = 2 # fine\n[log]\nlevel = debug",
        &["3: this is not TOML: string values must be quoted, expected literal string"],
    ),
];
