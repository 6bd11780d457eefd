//! `rookery top`, beside a server in a separate process.

use serde_json::Value;

use super::rig::CliRig;

fn once(rig: &CliRig, by: &str) -> Value {
    let text = rig.run(&["top", "--once", "--json", "--by", by]).fine();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn every_list_is_there_with_totals_and_rates() {
    let rig = CliRig::fresh();
    let (_server, _) = rig.serve();
    for by in
        ["threads", "shards", "sessions", "senders", "rooms", "modules", "servers", "stages", "statements", "nodes"]
    {
        let page = once(&rig, by);
        assert_eq!(page["by"], by);
        assert_eq!((&page["values"]["sessions"], &page["totals"]["messages"]), (&0.into(), &0.into()), "{page}");
        assert_eq!((page["rates"]["messages"].as_f64(), &page["partial"]), (Some(0.0), &false.into()), "{page}");
        assert!(page["watching_percent"].is_number() && page["rows"].is_array(), "{page}");
    }
    let threads = once(&rig, "threads");
    let names: Vec<_> = threads["rows"].as_array().expect("rows").iter().map(|row| row["name"].clone()).collect();
    assert!(names.contains(&"web".into()), "{threads}");
    let shards = once(&rig, "shards");
    assert_eq!(shards["rows"][0]["name"], "shard 0");
    assert!(shards["rows"][0]["totals"]["deliveries"].is_number(), "{shards}");
    let statements = once(&rig, "statements");
    let rows = statements["rows"].as_array().expect("rows");
    let is_select = |row: &Value| row["name"].as_str().is_some_and(|sql| sql.starts_with("SELECT "));
    assert!(rows.iter().any(|row| is_select(row) && row["totals"]["calls"].as_u64() > Some(0)), "{statements}");
    assert_eq!(once(&rig, "nodes")["rows"], serde_json::json!([]), "it is no node of a cluster");
    let text = rig.run(&["top", "--once", "--by", "stages"]).fine();
    let head = text.lines().find(|line| line.starts_with("STAGES")).expect("a head");
    let columns: Vec<&str> = head.split("  ").map(str::trim).filter(|column| !column.is_empty()).collect();
    assert_eq!(columns[..4], ["STAGES", "PERCENT", "US PER CALL", "P99 US"], "the order is the server's");
    let text = rig.run(&["top", "--once"]).fine();
    assert!(text.contains("THREADS") && text.contains("watching uses ") && !text.contains('\x1b'), "{text}");
}

#[test]
fn without_a_server_there_is_nothing_to_watch() {
    let rig = CliRig::new();
    rig.run(&["top", "--once"]).expect_failure(1, "no server is running in ./rookery-data");
}
