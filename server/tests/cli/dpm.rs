//! `[dpm]`: readings of devices are served with the server.

use std::io::{BufRead, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};

use super::rig::{CliRig, FREE_PORTS};

const DEMO: &str = "[dpm]\nenabled = true\ndemo = true\nlisten = \"127.0.0.1:0\"\n";

#[test]
fn readings_are_served_from_start_to_stop() {
    let rig = CliRig::new();
    rig.write("rookery.toml", &format!("{FREE_PORTS}{DEMO}"));
    let checked = rig.run(&["check"]).starts();
    assert!(checked.contains("devices: 7, front-ends: 2"), "{checked}");
    let (server, said) = rig.serve();
    let address = said.split([' ', '\n']).collect::<Vec<_>>();
    let place = address.iter().position(|word| word.starts_with("(DPM)")).expect("it says where it serves them");
    let mut client = TcpStream::connect(address[place - 1]).expect("a connection");
    client.set_read_timeout(Some(Duration::from_secs(20))).expect("it can be set");
    client.write_all(b"GET /dpm HTTP/1.1\r\nContent-Type: application/pc\r\n\r\n").expect("it is sent");
    let mut frame = [0; 8];
    client.read_exact(&mut frame).expect("the number of a list");
    assert_eq!(&frame[4..], b"SDD\x02");
    assert_eq!(server.stop(), 0);
    assert_eq!(client.read_to_end(&mut Vec::new()).map(|_| ()).map_err(|error| error.kind()), Ok(()));
}

#[test]
fn what_is_wrong_is_named() {
    let rig = CliRig::new();
    let wrong = |text: &str, words: &str| {
        rig.write("rookery.toml", &format!("{FREE_PORTS}{text}"));
        rig.run(&[]).expect_failure(78, words);
    };
    // After the name of the table.
    let line = FREE_PORTS.lines().count() + 2;
    let wrong_there = |text: &str, words: &str| wrong(text, &format!("rookery.toml:{line}: {words}"));
    wrong_there("[dpm]\nenabled = true\n", "dpm.enabled: there are no devices");
    wrong_there("[dpm]\nnode = \"ad6\"\n", "dpm.node: \"ad6\" is not four hexadecimal digits");
    wrong_there("[dpm]\nname = \"TOO_LONG\"\n", "dpm.name: ");
    wrong_there("[dpm]\ndatabse = \"x\"\n", "dpm.databse: there is no such key; did you mean `database`?");
    wrong(&format!("{DEMO}database = \"none.toml\"\n"), "none.toml: ");
    rig.write("devices.toml", "[[node]]\nname = \"MUONFE\"\naddress = \"0c2\"\n");
    wrong(&format!("{DEMO}database = \"devices.toml\"\n"), "devices.toml: line ");
}

#[test]
fn a_taken_port_keeps_a_server_from_starting_now() {
    let rig = CliRig::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address");
    rig.write("rookery.toml", &format!("{FREE_PORTS}[dpm]\nenabled = true\ndemo = true\nlisten = \"{address}\"\n"));
    let checked = rig.run(&["check"]);
    assert_eq!(checked.code, 75, "{}", checked.all());
    assert!(checked.out.contains(&format!("blocked  ports          cannot listen on {address}")), "{}", checked.out);
    rig.run(&[]).expect_failure(75, "change `listen` in [dpm]");
}

/// Returns an address of this machine that nobody listens on, for a server that is about to start.
fn free_address() -> SocketAddr {
    let taken = TcpListener::bind("127.83.1.2:0").expect("a port");
    taken.local_addr().expect("its address")
}

/// Returns the keys of an issuer whose tokens are signed with a secret, in base64.
fn issuer_keys(octets: &str) -> String {
    format!(r#"{{"keys":[{{"kty":"oct","kid":"one","alg":"HS256","k":"{octets}"}}]}}"#)
}

#[test]
fn settings_by_grpc_need_a_token_and_a_reload_takes_other_keys() {
    let rig = CliRig::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    rig.write("dpm.pem", &made.cert.pem());
    rig.write("dpm.key", &made.signing_key.serialize_pem());
    let secret = "secret-of-the-issuer-for-this-test";
    rig.write("issuer.json", &issuer_keys("c2VjcmV0LW9mLXRoZS1pc3N1ZXItZm9yLXRoaXMtdGVzdA"));
    rig.write("roles.toml", "[[role]]\nname = 'all'\nprincipals = ['operator@EXAMPLE.ORG']\ndevices = ['Z:*']\n");
    let address = free_address().to_string();
    let keys = format!(
        "{DEMO}grpc = \"{address}\"\ngrpc_certificate = \"dpm.pem\"\ngrpc_key = \"dpm.key\"\ntokens = \"issuer.json\"\n\
         token_issuer = \"https://sso.example.org\"\ntoken_realm = \"EXAMPLE.ORG\"\nroles = \"roles.toml\"\n"
    );
    rig.write("rookery.toml", &format!("{FREE_PORTS}{keys}"));
    let claims = serde_json::json!({
        "sub": "operator", "iss": "https://sso.example.org", "exp": get_current_timestamp() + 600,
    });
    let header = Header { kid: Some("one".to_owned()), ..Header::new(Algorithm::HS256) };
    let token = encode(&header, &claims, &EncodingKey::from_secret(secret.as_bytes())).expect("a token");
    rig.write("token", &token);
    let set = ["dpm", "set", "Z:CUBE_X=4.5", "--to", &address, "--ca", "dpm.pem", "--token-file", "token"];
    let (server, _) = rig.serve();
    let done = rig.run(&set).fine();
    assert!(done.starts_with("Z:CUBE_X"), "{done}");
    // A file that can't be used changes nothing.
    rig.write("issuer.json", "no keys");
    server.signal("HUP");
    rig.run(&set).fine();
    rig.write("issuer.json", &issuer_keys("c2VjcmV0LW9mLWFub3RoZXItaXNzdWVyLW9mLXRva2Vucw"));
    server.signal("HUP");
    let is_refused = |_: &u32| {
        std::thread::sleep(Duration::from_millis(50));
        rig.run(&set).all().contains("[17 -17]")
    };
    assert!((0..200).any(|round| is_refused(&round)), "the new keys don't know the token");
    assert_eq!(server.stop(), 0);
}

#[test]
fn files_of_grpc_are_tried_by_a_check_and_by_a_start() {
    let rig = CliRig::new();
    rig.write("none.pem", "no certificate");
    rig.write("none.json", "no keys");
    let address = free_address();
    for (keys, words) in [
        ("grpc_certificate = \"none.pem\"\ngrpc_key = \"none.pem\"\n", "dpm.grpc_certificate: none.pem: "),
        ("tokens = \"none.json\"\ntoken_issuer = \"https://sso.example.org\"\n", "dpm.tokens: none.json: "),
    ] {
        rig.write("rookery.toml", &format!("{FREE_PORTS}{DEMO}grpc = \"{address}\"\n{keys}"));
        let checked = rig.run(&["check"]);
        assert!(checked.code == 78 && checked.out.contains(words), "{}", checked.all());
        rig.run(&[]).expect_failure(78, words);
    }
    rig.write("rookery.toml", &format!("{FREE_PORTS}{DEMO}grpc = \"0.0.0.0:{}\"\n", address.port()));
    let checked = rig.run(&["check"]);
    assert!(checked.code == 3 && checked.out.contains("in the clear"), "{}", checked.all());
}

#[test]
fn the_example_database_is_a_good_one_and_mistakes_have_their_place() {
    let rig = CliRig::new();
    let example = rig.run(&["dpm", "database", "example"]).fine();
    rig.write("devices.toml", &example);
    let checked = rig.run(&["dpm", "database", "check", "devices.toml"]).fine();
    assert!(checked.contains("devices.toml: devices 1, front-ends 1, recorded readings 1"), "{checked}");
    rig.write("devices.toml", &example.replace("ssdn = \"000042003f210000\"", "ssdn = \"42\""));
    let place = ", device.reading.ssdn: sixteen hexadecimal digits";
    rig.run(&["dpm", "database", "check", "devices.toml"]).expect_failure(78, place);
    rig.write("devices.toml", "");
    rig.run(&["dpm", "--database", "devices.toml"]).expect_failure(78, "rookery dpm database example");
}

#[test]
fn readings_are_read_and_watched_from_the_command_line() {
    let rig = CliRig::new();
    rig.write("rookery.toml", &format!("{FREE_PORTS}{DEMO}"));
    let (server, said) = rig.serve();
    let words = said.split([' ', '\n']).collect::<Vec<_>>();
    let place = words.iter().position(|word| word.starts_with("(DPM)")).expect("it says where it serves them");
    let address = words[place - 1];
    let read = rig.run(&["dpm", "get", "M:OUTTMP", "B:ARRAY[0:3]", "G:TEXT", "M|OUTTMP", "--from", address]).fine();
    let lines: Vec<_> = read.lines().collect();
    assert!(
        lines[1].starts_with("B:ARRAY") && lines[3].starts_with("M|OUTTMP"),
        "in the order of the requests: {read}"
    );
    let of = |name: &str| *lines.iter().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{read}"));
    assert!(of("M:OUTTMP@I ").ends_with(" DegF"), "{read}");
    assert_eq!(of("B:ARRAY").split(' ').count(), 6, "four numbers and the units: {read}");
    assert_eq!(of("G:TEXT"), "G:TEXT@I HELLO");
    assert_eq!(of("M|OUTTMP"), "M|OUTTMP@I on, ready, not remote, positive, not ramp");
    let failed = rig.run(&["dpm", "get", "Z:NOSUCH", "--from", address]);
    assert_eq!((failed.code, failed.out.trim()), (1, "Z:NOSUCH@I [16 -13] DBM_NOPROP"), "{}", failed.all());
    rig.run(&["dpm", "get", "nothing at all", "--from", address]).expect_failure(1, "nothing at all: [17 -24]");
    let watched = rig.run(&["dpm", "monitor", "G:COUNTR@p,100", "--count", "3", "--from", address]).fine();
    let counted: Vec<f64> = watched.lines().filter_map(|line| line.split(' ').nth(2)?.parse().ok()).collect();
    assert!(counted.len() == 3 && counted.is_sorted(), "{watched}");
    let listed = rig.run(&["dpm", "devices", "outdoor"]).fine();
    assert!(listed.lines().count() == 1 && listed.contains("27235 M:OUTTMP"), "{listed}");
    assert_eq!(server.stop(), 0);
}

#[test]
fn tables_become_a_database() {
    let rig = CliRig::new();
    rig.write("nodes.csv", "name,address,socket,protocol\nMUONFE,0c23,127.0.0.1:6801,RETDAT\n");
    let devices = "index,name,reading.node,reading.ssdn,reading.primary\n27235,M:OUTTMP,MUONFE,000042003f210000,0\n";
    let nodes = rig.path("nodes.csv").display().to_string();
    let import = ["dpm", "database", "import", "--nodes", &nodes, "--devices", "-"];
    let made = rig.run_with(&import, devices).fine();
    rig.write("devices.toml", &made);
    let file = rig.path("devices.toml").display().to_string();
    let checked = rig.run(&["dpm", "database", "check", &file]).fine();
    assert!(checked.contains("devices 1, front-ends 1"), "{checked}");
    // An error names the table and its row, whichever side finds it.
    rig.run_with(&import, &devices.replace("MUONFE", "NOBODY")).expect_failure(78, "standard input: line 2");
    rig.run_with(&import, &devices.replace("reading.ssdn", "reading.sdn"))
        .expect_failure(78, "standard input: line 1, reading.sdn: there is no such key");
}

/// Checks that views of a database become a device database. `run` runs a statement, and `quote` is
/// the engine's quote of names.
pub fn views_become_a_device_database(rig: &CliRig, url: &str, run: impl Fn(&str), quote: char) {
    let quoted = |text: &str| format!("{quote}{text}{quote}");
    run("CREATE TABLE fronts (id int, node_name varchar(20), ip varchar(30), acnet_address varchar(4))");
    run("INSERT INTO fronts VALUES (7, 'MUONFE', '127.0.0.1:6801', '0c23')");
    run("CREATE VIEW dpm_nodes AS SELECT node_name AS name, acnet_address AS address, ip AS socket, \
         'RETDAT' AS protocol FROM fronts");
    run("CREATE TABLE things (di int, title varchar(30), front int, ssdn varchar(16))");
    run("INSERT INTO things VALUES (100, 'M:SECOND', 7, '0000430000000000'), (27, 'M:FIRST', 7, '000042003f210000')");
    let columns = [("index", "di"), ("name", "title"), ("reading.node", "node_name"), ("reading.ssdn", "ssdn")];
    let columns = columns.map(|(key, column)| format!("{column} AS {}", quoted(key))).join(", ");
    let view = |more: &str| {
        run("DROP VIEW IF EXISTS dpm_devices");
        run(&format!("CREATE VIEW dpm_devices AS SELECT {columns}{more} FROM things JOIN fronts ON front = id"));
    };
    view(&format!(", 0 AS {}", quoted("reading.primary")));
    let import = ["dpm", "database", "import", "--from", url, "--nodes", "dpm_nodes", "--devices", "dpm_devices"];
    let made = rig.run(&import).fine();
    let at = |text: &str| made.find(text).unwrap_or_else(|| panic!("{text} is not in\n{made}"));
    assert!(at("M:FIRST") < at("M:SECOND"), "by their numbers:\n{made}");
    rig.write("devices.toml", &made);
    let file = rig.path("devices.toml").display().to_string();
    let checked = rig.run(&["dpm", "database", "check", &file]).fine();
    assert!(checked.contains("devices 2, front-ends 1"), "{checked}");
    view(&format!(", 999 AS {}", quoted("reading.primary")));
    rig.run(&import).expect_failure(78, "dpm_devices: row 1, device.reading.primary");
    view(", 0 AS speed");
    rig.run(&import).expect_failure(78, "dpm_devices, speed: there is no such key");
    let nothing = ["dpm", "database", "import", "--from", url, "--nodes", "nothing", "--devices", "dpm_devices"];
    rig.run(&nothing).expect_failure(1, "has no table or view \"nothing\" that this user may read");
}

#[test]
fn views_of_sqlite_become_a_device_database() {
    let rig = CliRig::new();
    let database = rusqlite::Connection::open(rig.path("controls.db")).expect("a database");
    let run = |statement: &str| database.execute_batch(statement).expect("a statement");
    views_become_a_device_database(&rig, "controls.db", run, '"');
}

#[test]
fn the_api_reads_devices_once_and_follows_them_by_events() {
    let rig = CliRig::new();
    rig.write("rookery.toml", &format!("{FREE_PORTS}{DEMO}"));
    let may = rig.run(&["token", "add", "reader", "--scope", "readings:read"]).fine();
    let other = rig.run(&["token", "add", "other", "--scope", "statistics:read"]).fine();
    let of_domain = rig.run(&["token", "add", "small", "--scope", "readings:read", "--domain", "localhost"]).fine();
    let (server, said) = rig.serve();
    let words = said.split([' ', '\n']).collect::<Vec<_>>();
    let place = words.iter().position(|word| word.starts_with("(HTTP)")).expect("it says where the front is");
    let front = words[place - 1];
    let get = |path: &str, secret: &str| {
        let mut stream = TcpStream::connect(front).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("it can be set");
        let secret = secret.trim();
        let head = format!(
            "GET /api/v1{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {secret}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it is sent");
        stream
    };
    let answer = |path: &str, secret: &str| {
        let mut text = String::new();
        get(path, secret).read_to_string(&mut text).expect("an answer");
        text
    };
    let read = answer("/readings?requests=M:OUTTMP+G:TEXT+Z:NOSUCH+M%7COUTTMP+B:ARRAY%5B0:3%5D", &may);
    assert!(read.starts_with("HTTP/1.1 200 "), "{read}");
    let body = read.split_once("\r\n\r\n").expect("a body").1;
    let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
    let of = |request: &str| {
        let all = body["readings"].as_array().expect("a list");
        let found = all.iter().find(|reading| reading["request"] == format!("{request}@I"));
        found.unwrap_or_else(|| panic!("{request}: {body}")).clone()
    };
    assert_eq!(of("M:OUTTMP")["units"], "DegF");
    assert!(
        of("M:OUTTMP")["value"].is_f64() && of("M:OUTTMP")["time"].as_str().is_some_and(|time| time.ends_with('Z'))
    );
    assert_eq!(of("G:TEXT")["value"], "HELLO");
    assert_eq!(of("M|OUTTMP")["value"]["on"], true);
    assert_eq!(of("B:ARRAY[0:3]")["value"].as_array().map(Vec::len), Some(4));
    assert_eq!((of("Z:NOSUCH")["facility"].as_i64(), of("Z:NOSUCH")["error"].as_i64()), (Some(16), Some(-13)));
    assert!(of("Z:NOSUCH").get("value").is_none());
    let mut events = std::io::BufReader::new(get("/readings/events?requests=G:COUNTR@p,100", &may));
    let mut counted: Vec<f64> = Vec::new();
    let mut is_events = false;
    while counted.len() < 5 {
        let mut line = String::new();
        assert!(events.read_line(&mut line).expect("an event") > 0, "the events ended: {counted:?}");
        is_events |= line.to_lowercase().starts_with("content-type: text/event-stream");
        // Between the events are the lengths of chunks.
        if let Some(data) = line.strip_prefix("data: ") {
            let reading: serde_json::Value = serde_json::from_str(data).expect("JSON");
            counted.extend(reading["value"].as_f64());
        }
    }
    assert!(is_events && counted.is_sorted(), "{counted:?}");
    drop(events);
    let status = |text: String| text.split(' ').nth(1).unwrap_or_default().to_owned();
    assert_eq!(status(answer("/readings?requests=M:OUTTMP", "nothing")), "401");
    assert_eq!(status(answer("/readings?requests=M:OUTTMP", &other)), "403");
    assert_eq!(status(answer("/readings?requests=M:OUTTMP", &of_domain)), "403");
    assert_eq!(status(answer("/readings?requests=nothing+at+all", &may)), "400");
    assert_eq!(status(answer(&format!("/readings?requests={}", "M:OUTTMP+".repeat(101)), &may)), "400");
    assert_eq!(server.stop(), 0);
}

#[test]
fn the_metrics_of_the_server_have_those_of_readings() {
    let rig = CliRig::new();
    rig.write("rookery.toml", &format!("{FREE_PORTS}{DEMO}"));
    let (server, said) = rig.serve();
    let words = said.split([' ', '\n']).collect::<Vec<_>>();
    let place = words.iter().position(|word| word.starts_with("(HTTP)")).expect("it says where the front is");
    let mut stream = TcpStream::connect(words[place - 1]).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("it can be set");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("it is sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    for line in
        ["rookery_dpm_readings_total ", "rookery_dpm_protocol_clients{protocol=\"DPM\"} 0", "rookery_build_info"]
    {
        assert!(text.lines().any(|told| told.starts_with(line)), "{line}: {text}");
    }
    assert_eq!(server.stop(), 0);
}

#[test]
fn without_devices_the_api_has_none() {
    let rig = CliRig::new();
    let may = rig.run(&["token", "add", "reader", "--scope", "readings:read"]).fine();
    let (server, said) = rig.serve();
    let words = said.split([' ', '\n']).collect::<Vec<_>>();
    let place = words.iter().position(|word| word.starts_with("(HTTP)")).expect("it says where the front is");
    let mut stream = TcpStream::connect(words[place - 1]).expect("a connection");
    let head = format!(
        "GET /api/v1/readings?requests=M:OUTTMP HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        may.trim()
    );
    stream.write_all(head.as_bytes()).expect("it is sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    assert!(text.starts_with("HTTP/1.1 404 ") && text.contains("[dpm]"), "{text}");
    assert_eq!(server.stop(), 0);
}
