//! Prometheus's own tool finds no mistake in the rules for alerts and in the page of metrics of a
//! running server.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::control::plain;
use super::uploads::http;

rookery_needs::needing! { "cli.promtool": promtool_finds_no_mistake }

mod test {
    use super::*;

    pub fn promtool_finds_no_mistake() {
        let rig = plain();
        let folder = rig.path("prometheus");
        rookery_needs::unpack("prometheus", &folder);
        let check = |what: &str, file: Option<&Path>, page: &str| {
            let mut command = Command::new(folder.join("usr/bin/promtool"));
            command
                .args(["check", what])
                .args(file)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            let mut running = command.spawn().expect("promtool");
            running.stdin.take().expect("its input").write_all(page.as_bytes()).expect("written");
            let ended = running.wait_with_output().expect("its output");
            let said = String::from_utf8_lossy(&ended.stdout).into_owned() + &String::from_utf8_lossy(&ended.stderr);
            assert!(ended.status.success(), "{what}: {said}");
            said
        };
        let rules = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../doc/prometheus/alerts.yml"));
        let said = check("rules", Some(rules), "");
        assert!(said.contains("SUCCESS") && said.contains("rules found"), "{said}");
        let (_server, said) = rig.serve();
        let answer = http(&said, "GET /metrics HTTP/1.1", b"");
        let (head, page) = answer.split_once("\r\n\r\n").expect("a page");
        assert!(head.starts_with("HTTP/1.1 200") && page.contains("\nrookery_"), "{head}");
        assert_eq!(check("metrics", None, page), "");
    }
}
