//! Measures the cost of a letter between two nodes: CPU of the writer, the reader and Redis, and
//! the round trip of a single letter.
//!
//! ```text
//! cargo run --release -p rookery-cluster --example letters -- redis://127.0.0.1:6379
//! ```

use std::time::{Duration, Instant};

use rookery_cluster::RedisAddresses;
use rookery_cluster::courier::{AppendOutcome, ArrivedPart, Courier, CourierLetter};
use rookery_cluster::engine::{RedisConnection, RedisEngine, START};
use rookery_cluster::wire::NodeProcess;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Builder, Runtime};

const WRITER: NodeProcess = NodeProcess { node: 1, incarnation: 1 };
const READER: NodeProcess = NodeProcess { node: 2, incarnation: 1 };

type LetterError = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), LetterError> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".into());
    let engine = RedisEngine::new(&RedisAddresses { redis: vec![url], sentinels: Vec::new() }, "measured")?;
    println!("{BYTES} B a letter, {SECONDS} s each; µs of CPU a letter");
    println!("{:>9} {:>12} {:>8} {:>8} {:>8}", "an entry", "letters/s", "writer", "reader", "Redis");
    for batch in [1, 10, 20, 100] {
        measure(&engine, batch)?;
    }
    let (median, high) = alone(&engine)?;
    println!("one letter alone, there and confirmed: p50 {median} µs, p99 {high} µs");
    Ok(())
}

/// Writes and reads for a while, with this many letters per entry, and prints the cost.
fn measure(engine: &RedisEngine, batch: usize) -> Result<(), LetterError> {
    let mut connection = runtime()?.block_on(prepare(engine))?;
    drop(connection.1.take());
    let until = Instant::now() + Duration::from_secs(SECONDS);
    let before = redis_cpu(engine)?;
    let reader = {
        let engine = engine.clone();
        std::thread::spawn(move || runtime()?.block_on(read(&engine, until)))
    };
    let (written, cpu) = runtime()?.block_on(write(engine, batch, until))?;
    let (found, reader_cpu) = reader.join().map_err(|_| "the reader has failed")??;
    let redis = redis_cpu(engine)?.saturating_sub(before);
    let each = |cpu: Duration, of: u64| cpu.as_secs_f64() * 1e6 / of.max(1) as f64;
    println!(
        "{batch:>9} {:>12} {:>8.2} {:>8.2} {:>8.2}",
        found / SECONDS,
        each(cpu, written),
        each(reader_cpu, found),
        each(redis, found),
    );
    Ok(())
}

async fn prepare(engine: &RedisEngine) -> Result<(RedisConnection, Option<RedisConnection>), LetterError> {
    let mut connection = engine.connect().await?;
    connection.remove_inbox(READER).await?;
    connection.create_inbox(READER).await?;
    Ok((connection.clone(), Some(connection)))
}

/// Writes, one append at a time, as the courier does.
async fn write(engine: &RedisEngine, batch: usize, until: Instant) -> Result<(u64, Duration), LetterError> {
    let mut connection = engine.connect().await?;
    let (mut count, since) = (0, cpu());
    while Instant::now() < until {
        // Each entry has a new courier, since the reader doesn't confirm here.
        let mut courier = Courier::<()>::new(WRITER);
        courier.meet(READER, 1);
        for _ in 0..batch {
            drop(courier.post(READER, letter()));
        }
        for append in courier.appends(0, 0) {
            if connection.append(append.to, &append.entry).await? != AppendOutcome::Taken {
                return Err("the inbox is gone".into());
            }
        }
        count += batch as u64;
    }
    Ok((count, cpu().saturating_sub(since)))
}

async fn read(engine: &RedisEngine, until: Instant) -> Result<(u64, Duration), LetterError> {
    let mut connection = engine.connect().await?;
    let (mut count, mut position, since, mut trimmed) = (0, START.to_owned(), cpu(), Instant::now());
    while Instant::now() < until {
        for (at, entry) in connection.read(READER, &position, AT_ONCE).await? {
            let mut courier = Courier::<()>::new(READER);
            courier.meet(WRITER, 1);
            let arrived = courier.arrived(&entry).map_err(|error| error.to_string())?;
            count += arrived.map_or(0, |arrived: ArrivedPart| arrived.letters.len()) as u64;
            position = at;
        }
        if trimmed.elapsed() > Duration::from_millis(200) {
            trimmed = Instant::now();
            connection.trim(READER, &position).await?;
        }
    }
    Ok((count, cpu().saturating_sub(since)))
}

/// Returns the time of a letter there and back, in microseconds: the median and the 99th
/// percentile.
fn alone(engine: &RedisEngine) -> Result<(u128, u128), LetterError> {
    runtime()?.block_on(async {
        prepare(engine).await?;
        let (mut writer, mut reader) = (engine.connect().await?, engine.connect().await?);
        let (mut position, mut times) = (START.to_owned(), Vec::new());
        for _ in 0..ROUNDS {
            let mut courier = Courier::<()>::new(WRITER);
            courier.meet(READER, 1);
            drop(courier.post(READER, letter()));
            let since = Instant::now();
            for append in courier.appends(0, 0) {
                writer.append(append.to, &append.entry).await?;
            }
            if let Some((at, _)) = reader.read(READER, &position, AT_ONCE).await?.pop() {
                position = at;
            }
            times.push(since.elapsed().as_micros());
        }
        times.sort_unstable();
        Ok((times[ROUNDS / 2], times[ROUNDS * 99 / 100]))
    })
}

fn letter() -> CourierLetter<()> {
    CourierLetter { kind: 1, from: 0, to: 0, body: vec![b'x'; BYTES], outlives: true, until_read: false, share: None }
}

fn runtime() -> Result<Runtime, LetterError> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// Returns the CPU time of this thread.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the CPU time of Redis.
fn redis_cpu(engine: &RedisEngine) -> Result<Duration, LetterError> {
    let text = runtime()?.block_on(async { engine.connect().await?.information("cpu").await })?.unwrap_or_default();
    let seconds = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<f64>().ok());
    let all = ["used_cpu_user:", "used_cpu_sys:"].into_iter().filter_map(seconds).sum();
    Ok(Duration::from_secs_f64(all))
}

/// The bytes of a letter: a message with its envelope.
const BYTES: usize = 600;
/// The entries that are read at once.
const AT_ONCE: usize = 64;
/// The time of each measurement.
const SECONDS: u64 = 4;
/// The number of letters that are sent one by one.
const ROUNDS: usize = 2_000;
