//! States the result in sentences, for readers who read nothing else: the best run and its lead, or
//! the result of a single run, and reasons to doubt the figure.

use crate::report::compare::differing;
use crate::report::labels;
use crate::report::metric::{self, Better, Metric};
use crate::report::spread::is_within;
use crate::result::RunResult;

/// Returns the result of the runs of one scenario, the most telling sentence first.
pub(super) fn sentences(runs: &[&RunResult]) -> Vec<String> {
    let done: Vec<(&RunResult, String)> =
        runs.iter().copied().zip(labels(runs)).filter(|(run, _)| run.is_done()).collect();
    match done.as_slice() {
        [] => vec!["No run was completed.".to_owned()],
        [(run, label)] => vec![alone(run, label)],
        several => {
            let told = metric::ALL.iter().filter(|metric| metric.headline && metric.better != Better::Neither);
            let mut lines: Vec<_> = told.filter_map(|metric| between(metric, several)).take(MOST).collect();
            if !differing(runs).is_empty() {
                lines.insert(0, "The settings differ, so this is not the same load: see below.".to_owned());
            }
            lines
        }
    }
}

/// States the result of a single run.
fn alone(run: &RunResult, label: &str) -> String {
    let told = metric::ALL.iter().filter(|metric| metric.headline && metric.of(run).is_some());
    let figures: Vec<_> = told.take(MOST).map(|metric| format!("{} {}", metric.name, metric.show(run))).collect();
    let wrong = run.lost + run.duplicated + run.reordered;
    let order = match (run.expected, wrong) {
        (0, _) => String::new(),
        (_, 0) => " Everything arrived once and in order.".to_owned(),
        (_, 1) => " One stanza was lost, arrived twice or out of order.".to_owned(),
        (_, wrong) => format!(" {wrong} stanzas were lost, arrived twice or out of order."),
    };
    match figures.is_empty() {
        true => format!("{label} has nothing to show.{order}"),
        false => format!("{label}: {}.{order}", figures.join(", ")),
    }
}

/// States which of several runs is best in a figure, and how far behind the next one is.
fn between(metric: &Metric, runs: &[(&RunResult, String)]) -> Option<String> {
    let mut found: Vec<_> =
        runs.iter().filter_map(|(run, label)| Some((metric.of(run)?, *run, label.as_str()))).collect();
    found.sort_by(|one, other| match metric.better {
        Better::More => other.0.total_cmp(&one.0),
        Better::Less | Better::Neither => one.0.total_cmp(&other.0),
    });
    let [(best, first, label), (next, second, other), ..] = found[..] else { return None };
    let name = metric.name;
    if best == next {
        return Some(format!("{name}: {label} and {other} are equal with {}.", metric.show(first)));
    }
    if is_within(metric, first, second) {
        return Some(format!(
            "{name}: {label} ({}) and {other} ({}) can't be told apart.",
            metric.show(first),
            metric.show(second)
        ));
    }
    let more = if metric.better == Better::More { best / next } else { next / best };
    let ratio = match more {
        more if !more.is_finite() => String::new(),
        more if more < 1.995 => format!(", {:.0} % ahead", (more - 1.0) * 100.0),
        more => format!(", {more:.1} times as good"),
    };
    Some(format!(
        "{name}: {label} is best with {}{ratio}; {other} comes next with {}.",
        metric.show(first),
        metric.show(second)
    ))
}

/// The most sentences, and the most figures of a single run.
const MOST: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{DONE, RunSample};

    fn run(server: &str, rate: f64) -> RunResult {
        let sample = |t: u32| RunSample { t_s: f64::from(t), delivered_per_s: rate, ..RunSample::default() };
        RunResult {
            server: server.into(),
            throughput: Some(rate),
            delivered: 10,
            expected: 10,
            series: (0..10).map(sample).collect(),
            ended: DONE.into(),
            ..RunResult::default()
        }
    }

    #[test]
    fn the_best_is_named_with_how_far_the_next_is_behind() {
        let (one, two, mut near) = (run("one", 100.0), run("two", 40.0), run("near", 101.0));
        near.series.iter_mut().step_by(2).for_each(|sample| sample.delivered_per_s = 99.0);
        assert_eq!(
            sentences(&[&two, &one])[0],
            "deliveries: one is best with 100/s, 2.5 times as good; two comes next with 40/s."
        );
        assert_eq!(sentences(&[&near, &one])[0], "deliveries: near (101/s) and one (100/s) can't be told apart.");
        assert_eq!(sentences(&[&one, &run("same", 100.0)])[0], "deliveries: one and same are equal with 100/s.");
        let ahead = run("ahead", 130.0);
        assert!(sentences(&[&one, &ahead])[0].contains("ahead is best with 130/s, 30 % ahead; one"));
    }

    #[test]
    fn another_load_is_said_before_anything_else() {
        let (one, mut two) = (run("one", 100.0), run("two", 40.0));
        two.settings.insert("window".into(), "8".into());
        assert!(sentences(&[&one, &two])[0].starts_with("The settings differ"));
    }

    #[test]
    fn one_run_tells_what_it_has_reached() {
        let mut one = run("one", 100.0);
        assert_eq!(
            sentences(&[&one]),
            ["one: deliveries 100/s, not delivered as sent 0. Everything arrived once and in order."]
        );
        one.lost = 2;
        assert!(sentences(&[&one])[0].ends_with("2 stanzas were lost, arrived twice or out of order."));
        one.ended = "away".into();
        assert_eq!(sentences(&[&one]), ["No run was completed."]);
    }
}
