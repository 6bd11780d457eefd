//! The archive by itself: the readings that it keeps, and those that it removes.

use std::sync::Arc;

use rookery_dpm::history::{
    HistoryAnswer, HistoryArchive, HistoryBounds, HistoryQuestion, HistoryRow, HistoryTicket, HistoryWork,
    RecordedPoint, Series, WantedReadings,
};

#[test]
fn readings_outlive_the_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history.db");
    let series = series("M:OUTTMP.READING", "P,1S,TRUE", 1000);
    {
        let mut archive = HistoryArchive::open(&path, HistoryBounds::default()).expect("a file");
        write(&mut archive, (1..=3).map(|second| row(&series, second, vec![second as f64])));
    }
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(&path).expect("a file").permissions().mode();
    assert_eq!(mode & 0o077, 0, "others may not read it");
    let mut archive = HistoryArchive::open(&path, HistoryBounds::default()).expect("a file");
    assert_eq!(all(&mut archive, &series.name), [1.0, 2.0, 3.0]);
}

#[test]
fn files_of_later_versions_and_other_programs_are_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("text");
    std::fs::write(&text, "no database at all, but long enough to be looked at".repeat(9)).expect("a file");
    assert!(HistoryArchive::open(&text, HistoryBounds::default()).is_err());
    let later = folder.path().join("later.db");
    rusqlite::Connection::open(&later).expect("a file").execute_batch("PRAGMA user_version = 99").expect("it is set");
    let error = HistoryArchive::open(&later, HistoryBounds::default()).expect_err("a later version");
    assert!(error.to_string().contains("later Rookery"), "{error}");
}

#[test]
fn the_oldest_readings_are_removed_by_age_and_by_size() {
    let quick = series("G:QUICK.READING", "P,1S,TRUE", 1000);
    let slow = series("G:SLOW.READING", "P,1000S,TRUE", 1_000_000);
    let bounds = HistoryBounds { age: 1000, size: u64::MAX };
    let mut archive = HistoryArchive::in_memory(bounds).expect("memory");
    write(&mut archive, (0..3000).map(|second| row(&quick, second, vec![second as f64])));
    write(&mut archive, [0, 1000, 2000].map(|second| row(&slow, second, vec![second as f64])));
    assert!(!archive.trim(3000 * SECOND).expect("it is trimmed"));
    let kept = all(&mut archive, &quick.name);
    assert_eq!((kept.len(), kept[0]), (1000, 2000.0));
    assert_eq!(all(&mut archive, &slow.name), [2000.0]);

    let bounds = HistoryBounds { age: u64::MAX, size: 200_000 };
    let mut archive = HistoryArchive::in_memory(bounds).expect("memory");
    write(&mut archive, (0..20_000).map(|second| row(&quick, second, vec![second as f64 + 0.25])));
    assert!(archive.size().expect("a size") > 200_000);
    let mut rounds = 1;
    while archive.trim(20_000 * SECOND).expect("it is trimmed") {
        rounds += 1;
    }
    assert!((2..20).contains(&rounds), "{rounds} rounds");
    assert!(archive.size().expect("a size") <= 200_000);
    let kept = all(&mut archive, &quick.name);
    assert_eq!(kept.last(), Some(&19_999.25), "the newest stay");
    assert!(kept.len() > 3000, "no more went than had to: {}", kept.len());
}

#[test]
fn nan_is_recorded_as_nan() {
    let series = series("G:ODD.READING", "P,1S,TRUE", 1000);
    let mut archive = HistoryArchive::in_memory(HistoryBounds::default()).expect("memory");
    let odd = [f64::NAN, f64::INFINITY, -0.0, 0.0];
    write(&mut archive, (0..).zip(odd).map(|(second, value)| row(&series, second, vec![value])));
    write(&mut archive, [row(&series, 9, vec![f64::NAN, 1.5])]);
    let points = points(&mut archive, &series.name);
    assert!(points[0].values[0].is_nan() && points[1].values == [f64::INFINITY] && points[3].values == [0.0]);
    assert!(points[4].values[0].is_nan() && points[4].values[1] == 1.5);
}

#[test]
fn the_most_frequent_recording_with_readings_answers() {
    let mut archive = HistoryArchive::in_memory(HistoryBounds::default()).expect("memory");
    let slow = series("M:OUTTMP.READING", "P,60S,TRUE", 60_000);
    let quick = series("M:OUTTMP.READING", "P,1S,TRUE", 1000);
    write(&mut archive, [row(&slow, 10, vec![1.0]), row(&quick, 20, vec![2.0])]);
    let mut ask = |event: Option<&str>, from: i64, to: i64| {
        let wanted = WantedReadings::Span { from: from * SECOND, to: to * SECOND };
        let question = HistoryQuestion { name: "M:OUTTMP.READING".into(), event: event.map(str::to_owned), wanted };
        values(&answer(&mut archive, question))
    };
    assert_eq!(ask(None, 0, 100), [2.0]);
    assert_eq!(ask(None, 0, 15), [1.0], "the other has nothing there");
    assert_eq!(ask(Some("P,60S,TRUE"), 0, 100), [1.0]);
    assert_eq!(ask(None, 100, 0), [] as [f64; 0]);
}

fn series(name: &str, event: &str, period: i64) -> Arc<Series> {
    Arc::new(Series { name: name.into(), event: event.into(), period })
}

fn row(series: &Arc<Series>, second: i64, values: Vec<f64>) -> HistoryRow {
    HistoryRow { series: Arc::clone(series), micros: second * SECOND, values }
}

fn write(archive: &mut HistoryArchive, rows: impl IntoIterator<Item = HistoryRow>) {
    let (answers, done) = archive.work(rows.into_iter().map(HistoryWork::Write).collect());
    assert!(answers.is_empty());
    done.expect("it is written");
}

fn answer(archive: &mut HistoryArchive, question: HistoryQuestion) -> HistoryAnswer {
    let ticket = HistoryTicket { list: 7, number: 9 };
    let (answers, done) = archive.work(vec![HistoryWork::Ask(ticket, question)]);
    done.expect("nothing was to be written");
    let [(told, answer)] = <[_; 1]>::try_from(answers).expect("one answer");
    assert_eq!(told, ticket);
    answer
}

/// Returns all points of a name, with as many questions as needed.
fn points(archive: &mut HistoryArchive, name: &str) -> Vec<RecordedPoint> {
    let (mut all, mut from) = (Vec::new(), i64::MIN);
    loop {
        let wanted = WantedReadings::Span { from, to: i64::MAX };
        match answer(archive, HistoryQuestion { name: name.into(), event: None, wanted }) {
            HistoryAnswer::Points(points, more) => {
                all.extend(points);
                match all.last().filter(|_| more) {
                    Some(last) => from = last.micros + 1,
                    None => return all,
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

fn all(archive: &mut HistoryArchive, name: &str) -> Vec<f64> {
    points(archive, name).iter().map(|point| point.values[0]).collect()
}

fn values(answer: &HistoryAnswer) -> Vec<f64> {
    match answer {
        HistoryAnswer::Points(points, _) => points.iter().map(|point| point.values[0]).collect(),
        other => panic!("{other:?}"),
    }
}

const SECOND: i64 = 1_000_000;
