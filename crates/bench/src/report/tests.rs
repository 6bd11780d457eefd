//! Tests the structure of reports, and that no text of a result escapes from its place.

use std::collections::BTreeMap;

use super::*;
use crate::result::{DONE, FORMAT, Latency, LoginSeries, RunMachine, RunSample, ServerCpu, ServerMemory, SweepPoint};

fn run(scenario: &str, server: &str) -> RunResult {
    let sample = |t: u32| RunSample {
        t_s: f64::from(t),
        delivered_per_s: 20_900.0 + f64::from(t),
        sent_per_s: 21_000.0,
        sessions: 2000,
        server_cpu_share: Some(0.5),
        server_rss_bytes: Some(50 << 20),
        generator_cpu_share: 0.2,
        p99_us: Some(900.0),
    };
    let part = |(curve, n): (&str, u64)| SweepPoint {
        curve: curve.into(),
        label: format!("{curve} {n}"),
        n,
        rounds: 3,
        delivered: 3 * n,
        expected: 3 * n,
        us_per_destination_wall: 3.5,
        us_cpu_per_destination: Some(1.25),
        latency: None,
    };
    RunResult {
        format: FORMAT,
        scenario: scenario.into(),
        server: server.into(),
        version: Some("x 1.0".into()),
        started_unix: 1_700_000_000,
        seconds: 10.0,
        settings: BTreeMap::from([("pairs".into(), "1000".into()), ("host".into(), format!("{server}:5222"))]),
        machine: RunMachine { cores: 2, model: "a processor".into(), kernel: "6.1".into() },
        sessions: 2000,
        login: Some(LoginSeries {
            count: 2000,
            per_second: 900.0,
            per_cpu_second: Some(1500.0),
            ..LoginSeries::default()
        }),
        sent: 210_000,
        delivered: 209_999,
        expected: 210_000,
        lost: 1,
        throughput: Some(20_999.9),
        latency: Some(Latency {
            p50_us: 250.0,
            p90_us: 400.0,
            p99_us: 900.0,
            p999_us: 2000.0,
            max_us: 3000.0,
            mean_us: 280.0,
            histogram: vec![(256.0, 100), (512.0, 80), (4096.0, 2)],
        }),
        server_cpu: Some(ServerCpu { total_s: 5.0, user_s: 2.0, us_per_operation: 23.8 }),
        memory: Some(ServerMemory { start: 10 << 20, end: 50 << 20, peak: 52 << 20, per_session: Some(700.0) }),
        series: (0..10).map(sample).collect(),
        parts: [("bcc", 1), ("bcc", 101), ("to", 1), ("to", 101)].map(part).into(),
        ended: DONE.into(),
        ..RunResult::default()
    }
}

/// Asserts that tags are opened and closed in order, with attributes in double quotes: enough of a
/// parser to notice unescaped text.
fn assert_balanced(page: &str) {
    let body = page.split_once("</style>").unwrap().1;
    let mut open = vec!["html", "head"];
    for piece in body.split('<').skip(1) {
        let (tag, _) = piece.split_once('>').expect("a tag ends");
        let name = tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "closed out of order: {tag}");
        } else if !tag.ends_with('/') && name != "br" {
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn a_page_has_a_section_for_each_scenario_with_tiles_plots_and_tables() {
    let page = html(&[run("chat", "one"), run("chat", "two"), run("idle", "one")]);
    assert_balanced(&page);
    let sections: Vec<&str> = page.split("<section ").skip(1).collect();
    let [chat, idle] = sections.as_slice() else { panic!("{} sections", sections.len()) };
    assert!(chat.starts_with("id=\"s0\"><h2>chat</h2>") && idle.starts_with("id=\"s1\"><h2>idle</h2>"));
    // Two curves by time and CPU, latency, and six series.
    assert_eq!(chat.matches("<svg ").count(), 2 * 2 + 1 + 6);
    assert_eq!(chat.matches("class=\"bars\"").count(), metric::ALL.iter().filter(|metric| metric.headline).count());
    assert_eq!(chat.matches("<table>").count(), 3);
    assert_eq!(idle.matches("class=\"big\"").count(), metric::ALL.iter().filter(|metric| metric.headline).count());
    // The second run has the second colour, in legend and plots.
    assert!(chat.contains("<i class=\"c1\"></i>two") && chat.contains("#D55E01") && !idle.contains("#D55E01"));
    // The contents link to the sections, with the result of each.
    assert!(
        page.contains("<li><a href=\"#s0\">chat</a>: deliveries: one and two are equal with 21\u{202f}000/s.</li>"),
        "{page}"
    );
    assert!(
        chat.contains("deliveries ↑ <span class=\"soft\">higher is better</span>")
            && chat.contains("How it was measured")
    );
    assert!(chat.contains("one: 20\u{202f}901/s to 20\u{202f}908/s over seconds; two: "), "{chat}");
    assert!(chat.contains("The load: Pairs in a closed loop"), "{chat}");
    for outside in ["<script", "<link", "<img", "src=", "href=\"http", "url(", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn what_servers_call_themselves_stays_text() {
    let evil = "</h2><script>alert(1)</script>\"' onload='x' &amp; | `x` \u{1b}[31m";
    let mut hostile = run(evil, evil);
    hostile.version = Some(evil.into());
    hostile.ended = evil.into();
    hostile.notes = vec![evil.into()];
    hostile.generator_limit = Some(evil.into());
    hostile.machine.model = evil.into();
    hostile.settings.insert(evil.into(), evil.into());
    hostile.parts.iter_mut().for_each(|part| part.curve = evil.into());
    let runs = [hostile.clone(), hostile];
    let page = html(&runs);
    assert_balanced(&page);
    assert!(!page.contains("<script") && !page.contains('\u{1b}') && !page.contains(" onload='"));
    assert!(page.contains("&lt;script&gt;"));
    assert!(!markdown(&runs).contains("<script") && !markdown(&runs).contains('\u{1b}'));
    assert!(!text(&runs).contains('\u{1b}') && !compare::text(&runs).contains('\u{1b}'));
}

#[test]
fn nothing_measured_is_no_reason_to_fail() {
    assert_balanced(&html(&[]));
    assert!(text(&[]).is_empty() && markdown(&[]).is_empty());
    let page = html(&[RunResult::default(), RunResult::default()]);
    assert_balanced(&page);
    assert!(!page.contains("<svg "));
    assert!(page.contains("ended early: without a word"));
}

#[test]
fn what_is_no_number_is_shown_as_a_dash_and_never_by_name() {
    let mut broken = run("chat", "one");
    broken.throughput = Some(f64::NAN);
    broken.seconds = f64::INFINITY;
    broken.latency = Some(Latency {
        p50_us: f64::NAN,
        histogram: vec![(f64::NAN, 3), (f64::INFINITY, u64::MAX)],
        ..Latency::default()
    });
    broken.server_cpu = Some(ServerCpu { total_s: f64::NAN, user_s: f64::NEG_INFINITY, us_per_operation: f64::NAN });
    for sample in &mut broken.series {
        sample.t_s = f64::NAN;
    }
    for part in &mut broken.parts {
        part.us_per_destination_wall = f64::INFINITY;
        part.us_cpu_per_destination = Some(f64::NAN);
    }
    let runs = [broken, run("chat", "two")];
    for shown in [html(&runs), text(&runs), markdown(&runs), compare::text(&runs)] {
        assert!(!shown.contains("NaN") && !shown.contains("inf"), "{shown}");
        assert!(shown.contains(number::NONE));
    }
}

#[test]
fn tables_name_what_went_wrong() {
    let mut early = run("chat", "one");
    early.ended = "connection refused".into();
    early.generator_limit = Some("its CPU was at 100 %".into());
    early.parts[1].delivered -= 4;
    let shown = text(&[early]);
    for wanted in
        ["one ended early: connection refused", "was the limit, not the server", "(4 missing)", "20\u{202f}999"]
    {
        assert!(shown.contains(wanted) || wanted.starts_with("20"), "{wanted} in {shown}");
    }
}

#[test]
fn markdown_rows_have_as_many_cells_as_the_head() {
    let shown = markdown(&[run("chat", "a|b"), run("chat", "c")]);
    let table: Vec<&str> =
        shown.lines().take_while(|line| !line.starts_with("- ")).filter(|line| line.starts_with('|')).collect();
    let cells = |line: &&str| line.replace("\\|", "").matches('|').count();
    assert!(table.len() > 20);
    assert_eq!(table.iter().map(cells).collect::<std::collections::BTreeSet<_>>().len(), 2, "figures, and the sweep");
}

#[test]
fn a_comparison_says_how_much_and_whether_it_is_fair() {
    let (one, mut two) = (run("chat", "one"), run("chat", "two"));
    two.throughput = Some(2.0 * 20_999.9);
    two.series.iter_mut().for_each(|sample| sample.delivered_per_s *= 2.0);
    two.parts[0].us_cpu_per_destination = Some(2.5);
    let fair = compare::text(&[one.clone(), two.clone()]);
    assert!(fair.contains("(+100 %, better)"), "{fair}");
    assert!(fair.contains("2.50 µs (+100 %, worse)"), "{fair}");
    assert!(!fair.contains("settings differ") && !fair.contains("different machines"), "{fair}");
    two.settings.insert("pairs".into(), "10".into());
    two.machine.cores = 64;
    let unfair = compare::text(&[one, two]);
    assert!(unfair.contains("the settings differ, so these are not the same load: pairs 1000 / 10"), "{unfair}");
    assert!(unfair.contains("different machines"), "{unfair}");
}

/// Readers get only the page or the Markdown: reasons for unfairness must be there, too.
#[test]
fn what_differs_is_told_in_every_form() {
    let (one, mut two) = (run("chat", "one"), run("chat", "two"));
    two.settings.insert("pairs".into(), "10".into());
    let runs = [one, two];
    let words = "the settings differ, so these are not the same load: pairs 1000 / 10";
    let page = html(&runs);
    assert!(page.contains(&format!("<p class=\"warn\">{words}</p>")), "{page}");
    assert!(page.contains("<p class=\"result\">The settings differ, so this is not the same load: see below.</p>"));
    assert!(page.contains("<tr class=\"differs\"><td>pairs</td><td>1000</td><td>10</td></tr>"));
    let plain = markdown(&runs);
    assert!(plain.contains(&format!("> **Beware:** {words}")) && plain.contains("| pairs | 1000 | 10 |"), "{plain}");
}

#[test]
fn twelve_series_have_as_many_colours() {
    let runs: Vec<RunResult> = (0..12).map(|number| run("chat", &format!("server {number}"))).collect();
    let page = html(&runs);
    assert!((0..12).all(|number| page.contains(&format!("<i class=\"c{number}\"></i>server {number}"))));
    assert!(page.contains("<h1>rookery bench, chat: 12 servers</h1>"));
}

#[test]
fn runs_of_one_server_are_told_apart_by_their_files() {
    let of = |server: &str, file: &str| RunResult { file: Some(file.into()), ..run("chat", server) };
    let (one, two, three) = (of("same", "yesterday"), of("same", "today"), of("else", "other"));
    assert_eq!(labels(&[&one, &two]), ["yesterday", "today"]);
    assert_eq!(labels(&[&one, &two, &three]), ["same (yesterday)", "same (today)", "else"]);
}

#[test]
fn a_comparison_of_files_says_which_one_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (folder.path().join("good.json"), folder.path().join("bad.json"));
    run("chat", "one").write(&good).unwrap();
    std::fs::write(&bad, "{}x").unwrap();
    let (page, plain) = (folder.path().join("page.html"), folder.path().join("page.md"));
    compare::run(&[good.clone(), good.clone()], Some(&page), Some(&plain)).unwrap();
    assert!(std::fs::read_to_string(&plain).unwrap().contains("| "));
    assert_balanced(&std::fs::read_to_string(&page).unwrap());
    assert!(compare::run(&[good, bad], None, None).unwrap_err().to_string().contains("bad.json"));
}

#[test]
fn runs_of_servers_with_one_name_are_told_apart() {
    let (one, other, third) = (run("chat", "same"), run("chat", "same"), run("chat", "else"));
    assert_eq!(labels(&[&one, &other, &third]), ["same (1)", "same (2)", "else"]);
}
