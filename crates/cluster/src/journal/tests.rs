//! Journals in a Redis of the test's own.

use std::future::Future;

use rookery_hub::JournalFields;
use rookery_needs::{Proxy, ProxyDirection, Redis};
use rookery_store::memory::Memory;
use tokio::runtime::Builder;

use super::*;
use crate::source::RedisAddresses;

rookery_needs::needing!("cluster.journal":
    data_that_was_read_stays_until_the_reader_lets_it_go,
    an_answer_that_is_lost_is_asked_for_again,
    writes_after_others_have_read_do_not_count_and_expire,
    writes_to_an_era_that_is_over_do_not_count_and_expire,
    everything_expires_unless_it_is_renewed,
    a_batch_may_be_large,
);

const GONE: NodeProcess = NodeProcess { node: 2, incarnation: 7 };
const SLOTS: [u16; 3] = [5, 6, 9000];

fn engine(url: &str) -> RedisEngine {
    let addresses = RedisAddresses { redis: vec![url.to_owned()], sentinels: Vec::new() };
    RedisEngine::new(&addresses, "test").expect("an address")
}

fn run<T>(work: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
}

fn field(slot: u16) -> Vec<u8> {
    [b"c".as_slice(), slot.to_string().as_bytes()].concat()
}

fn write(slot: u16, value: Option<&[u8]>) -> JournalWrite {
    JournalWrite { slot, field: field(slot), value: value.map(<[u8]>::to_vec) }
}

/// Writes something for each slot in the first era of a process that is gone.
async fn write_all(engine: &RedisEngine) -> RedisConnection {
    let mut connection = engine.connect().await.expect("Redis");
    assert!(connection.begin_journal(GONE, 1).await.expect("an era"));
    let writes = SLOTS.iter().map(|slot| write(*slot, Some(b"value"))).collect();
    assert!(connection.journal(GONE, 1, writes).await.expect("a batch"));
    connection
}

async fn read(engine: &RedisEngine) -> (JournalFields, Vec<JournalPart>) {
    let (node, incarnation) = (GONE.node, GONE.incarnation);
    let lookup = JournalLookup { process: (node, incarnation), earlier: Vec::new(), slots: SLOTS.to_vec() };
    let mut reader = JournalReader::new(lookup);
    let meta = Memory::stores().meta;
    read_in_time(engine, &*meta, &mut reader).await.map_err(|error| format!("{error:?}")).expect("it is read");
    reader.finish()
}

fn all() -> JournalFields {
    SLOTS.iter().map(|slot| (field(*slot), b"value".to_vec())).collect()
}

/// Returns the names of all keys.
fn keys(redis: &Redis) -> Vec<String> {
    let told = redis.command(&["KEYS", "rk:*"]);
    let mut keys: Vec<String> = told.lines().filter(|line| line.starts_with("rk:")).map(str::to_owned).collect();
    keys.sort();
    keys
}

fn seconds_left(redis: &Redis, key: &str) -> i64 {
    redis.command(&["TTL", key]).trim().trim_start_matches(':').parse().expect("a number")
}

/// Returns the names of all keys, each of which expires.
fn all_expire(redis: &Redis) -> Vec<String> {
    let keys = keys(redis);
    assert!(!keys.is_empty());
    keys.iter().for_each(|key| assert!(seconds_left(redis, key) > 0, "{key} stays for ever"));
    keys
}

mod test {
    use super::*;

    pub fn data_that_was_read_stays_until_the_reader_lets_it_go() {
        let redis = Redis::start();
        let engine = engine(&redis.url());
        run(async {
            let mut connection = write_all(&engine).await;
            let (first, parts) = read(&engine).await;
            assert_eq!(first, all());
            assert_eq!(read(&engine).await, (first, parts.clone()), "the first reader may have died");
            for JournalPart { process, era, slots } in parts {
                connection.forget_journal(process, era, slots).await;
            }
            assert_eq!(read(&engine).await.0, []);
        });
        assert_eq!(keys(&redis), ["rk:test:journal:{2.7}"], "but the mark of its end is kept for an hour");
    }

    pub fn an_answer_that_is_lost_is_asked_for_again() {
        let redis = Redis::start();
        run(write_all(&engine(&redis.url())));
        let proxy = Proxy::start(&redis.socket());
        let engine = engine(&format!("redis+unix://{}", proxy.folder().join("redis.sock").display()));
        for bytes in [1, 30, 60, 90, 120] {
            proxy.cut_behind(ProxyDirection::Answered, bytes);
            assert_eq!(run(read(&engine)).0, all(), "cut after {bytes} bytes");
            assert!(!proxy.spare(), "an answer was cut after {bytes} bytes");
        }
    }

    pub fn writes_after_others_have_read_do_not_count_and_expire() {
        let redis = Redis::start();
        let engine = engine(&redis.url());
        run(async {
            let mut connection = write_all(&engine).await;
            for JournalPart { process, era, slots } in read(&engine).await.1 {
                connection.forget_journal(process, era, slots).await;
            }
            assert!(!connection.journal(GONE, 1, vec![write(5, Some(b"late"))]).await.expect("an answer"));
            assert!(!connection.begin_journal(GONE, 2).await.expect("an answer"));
        });
        all_expire(&redis);
    }

    pub fn writes_to_an_era_that_is_over_do_not_count_and_expire() {
        let redis = Redis::start();
        run(async {
            let mut connection = write_all(&engine(&redis.url())).await;
            assert!(connection.begin_journal(GONE, 2).await.expect("an era"));
            connection.forget_journal(GONE, 1, SLOTS.to_vec()).await;
            assert!(!connection.journal(GONE, 1, vec![write(5, Some(b"late"))]).await.expect("an answer"));
        });
        all_expire(&redis);
    }

    pub fn everything_expires_unless_it_is_renewed() {
        let redis = Redis::start();
        drop(run(write_all(&engine(&redis.url()))));
        let keys = all_expire(&redis);
        assert_eq!(keys.len(), 1 + SLOTS.len(), "{keys:?}");
        keys.iter().for_each(|key| _ = redis.command(&["EXPIRE", key, "60"]));
        run(async {
            let mut connection = engine(&redis.url()).connect().await.expect("Redis");
            connection.renew_journal(GONE, 1, SLOTS.to_vec()).await.expect("an answer");
        });
        for key in &keys {
            assert!(seconds_left(&redis, key) > 60, "{key} was not renewed");
        }
    }

    pub fn a_batch_may_be_large() {
        let redis = Redis::start();
        run(async {
            let mut connection = write_all(&engine(&redis.url())).await;
            let named = |number: u32| number.to_string().into_bytes();
            let fields = |value: Option<&[u8]>| {
                let write = |number| JournalWrite { slot: 7, field: named(number), value: value.map(<[u8]>::to_vec) };
                (0..MANY).map(write).collect::<Vec<_>>()
            };
            assert!(connection.journal(GONE, 1, fields(Some(b"value"))).await.expect("a batch"));
            let found = connection.read_journal(GONE, 1, &[7]).await.expect("fields");
            assert_eq!(found.len(), MANY as usize);
            assert!(connection.journal(GONE, 1, fields(None)).await.expect("a batch"));
            assert_eq!(connection.read_journal(GONE, 1, &[7]).await.expect("fields"), []);
        });
    }

    const MANY: u32 = 20_000;
}
