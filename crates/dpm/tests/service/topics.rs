//! Topics of MQTT: a broker that is simulated here, correct and faulty.

use rookery_dpm::link::{Came, Goes, LinkNetwork};
use rookery_dpm::mqtt;
use rookery_dpm::sdd::ScaledSetting;
use rookery_dpm::sdd::request::ApplySettings;
use rookery_dpm::status::Status;

use crate::settings;
use crate::world::{ServiceWorld, TcpClient, numbers, statuses};

const DEVICES: &str = "
[[node]]
name = 'HALL'
protocol = 'MQTT'
broker = '10.1.0.9:1883'
user = 'op'
[[device]]
index = 1
name = 'E:TEMP'
[device.reading]
node = 'HALL'
topic = 'hall/temp'
[device.setting]
node = 'HALL'
topic = 'hall/temp/set'
json = '/value'
retain = true
[[device]]
index = 2
name = 'E:HUMID'
[device.reading]
node = 'HALL'
topic = 'hall/temp'
json = '/humidity'
[[device]]
index = 3
name = 'E:DOOR'
[device.reading]
node = 'HALL'
topic = 'hall/door'
primary = 68
[[device]]
index = 4
name = 'E:WAVE'
[device.reading]
node = 'HALL'
topic = 'hall/wave'
size = 32
default_size = 32
";

/// The number of the node, and so of the connection.
const HALL: usize = 0;

/// Returns the packets to the broker since the last call: the first byte of each, and the bytes
/// after its length.
fn take_sent(world: &mut ServiceWorld) -> Vec<(u8, Vec<u8>)> {
    let mut bytes = Vec::new();
    world.to_brokers.retain(|goes| match goes {
        Goes::Bytes(HALL, sent) => {
            bytes.extend_from_slice(sent);
            false
        }
        _ => true,
    });
    let (mut rest, mut packets) = (&*bytes, Vec::new());
    while let [first, length, behind @ ..] = rest {
        assert!(*length < 128, "a short packet");
        let (body, behind) = behind.split_at(usize::from(*length));
        packets.push((*first, body.to_vec()));
        rest = behind;
    }
    packets
}

fn came(world: &mut ServiceWorld, came: Came<'_>) {
    let now = world.moment();
    world.dpm.link(LinkNetwork::Mqtt, came, now);
    world.pass(0);
}

/// Opens the requested connection, and accepts us.
fn let_in(world: &mut ServiceWorld) {
    let calls = std::mem::take(&mut world.to_brokers);
    assert!(calls.iter().any(|goes| matches!(goes, Goes::Connect(HALL, to) if to.to_string() == "10.1.0.9:1883")));
    came(world, Came::Up(HALL));
    let greeting = take_sent(world);
    let [(0x10, connect)] = greeting.as_slice() else { panic!("no CONNECT: {greeting:x?}") };
    assert!(connect.starts_with(b"\x00\x04MQTT\x04\x82"), "{connect:x?}");
    came(world, Came::Bytes(HALL, b"\x20\x02\x00\x00"));
}

/// Returns the topics in a subscription packet, and grants them.
fn grant(world: &mut ServiceWorld) -> Vec<String> {
    let mut topics = Vec::new();
    for (_, body) in take_sent(world).into_iter().filter(|(first, _)| *first == 0x82) {
        let (id, mut rest) = body.split_at(2);
        let mut answer = vec![0x90, 2, id[0], id[1]];
        while let [high, low, behind @ ..] = rest {
            let (topic, behind) = behind.split_at(usize::from(u16::from_be_bytes([*high, *low])));
            topics.push(String::from_utf8(topic.to_vec()).expect("text"));
            answer[1] += 1;
            answer.push(0);
            rest = &behind[1..];
        }
        came(world, Came::Bytes(HALL, &answer));
    }
    topics
}

fn tell(world: &mut ServiceWorld, topic: &str, payload: &[u8]) {
    let mut packet = Vec::new();
    mqtt::publish(9, topic, payload, false, &mut packet);
    came(world, Came::Bytes(HALL, &packet));
}

fn reads(world: &mut ServiceWorld, requests: &[&str]) -> TcpClient {
    let client = world.client();
    for (ref_id, request) in (1..).zip(requests) {
        world.add(&client, ref_id, request);
    }
    world.start(&client);
    client
}

#[test]
fn a_topic_is_subscribed_to_once_for_all_readers() {
    let mut world = ServiceWorld::new(DEVICES);
    let clients: Vec<TcpClient> = (0..10).map(|_| reads(&mut world, &["E:TEMP@q,100", "E:HUMID@q,100"])).collect();
    let_in(&mut world);
    assert_eq!(grant(&mut world), ["hall/temp"]);
    tell(&mut world, "hall/temp", br#"{"humidity": 40}"#);
    tell(&mut world, "hall/temp", b"21.5");
    for client in &clients {
        let replies = world.replies(client);
        // As a whole the message was no number, and then the humidity was missing.
        assert_eq!(statuses(&replies, 1), [Status::INVDATA]);
        assert_eq!(numbers(&replies, 2), [40.0]);
    }
    world.pass(100);
    for client in &clients {
        assert_eq!(numbers(&world.replies(client), 1), [21.5]);
    }
    assert_eq!(world.statistics().topics, 1);
    assert_eq!((world.statistics().brokers, world.statistics().topics_known), (1, 1));
    // Each message was acknowledged, as its quality requires.
    assert_eq!(take_sent(&mut world), [(0x40, vec![0, 9]), (0x40, vec![0, 9])]);
}

#[test]
fn texts_and_arrays_are_read() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = reads(&mut world, &["E:DOOR@q,100", "E:WAVE@q,100", "E:WAVE[1:2]@q,100"]);
    let_in(&mut world);
    assert_eq!(grant(&mut world), ["hall/door", "hall/wave"]);
    tell(&mut world, "hall/door", b"open");
    tell(&mut world, "hall/wave", b"[1, 2, 3]");
    let replies = format!("{:?}", world.replies(&client));
    assert!(replies.contains("data: \"open\""), "{replies}");
    assert!(replies.contains("[1.0, 2.0, 3.0]") && replies.contains("[2.0, 3.0]"), "{replies}");
}

#[test]
fn a_single_reading_is_the_newest_message() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = reads(&mut world, &["E:TEMP@I"]);
    let_in(&mut world);
    assert_eq!(grant(&mut world), ["hall/temp"]);
    tell(&mut world, "hall/temp", b"20");
    assert_eq!(numbers(&world.replies(&client), 1), [20.0]);
    // The next reader gets it at once, or the value that arrived in between.
    for (temperature, expected) in [(None, 20.0), (Some("21"), 21.0)] {
        if let Some(temperature) = temperature {
            tell(&mut world, "hall/temp", temperature.as_bytes());
        }
        let other = reads(&mut world, &["E:TEMP@I"]);
        world.pass(0);
        assert_eq!(numbers(&world.replies(&other), 1), [expected]);
        assert_eq!(grant(&mut world), [""; 0]);
    }
    // A part that was never read is subscribed to again, and the broker sends its retained message.
    let other = reads(&mut world, &["E:HUMID@I"]);
    assert_eq!(grant(&mut world), ["hall/temp"]);
    tell(&mut world, "hall/temp", br#"{"humidity": 40}"#);
    assert_eq!(numbers(&world.replies(&other), 1), [40.0]);
}

#[test]
fn periods_are_kept_whether_messages_come_or_not() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = reads(&mut world, &["E:TEMP@p,1000"]);
    let_in(&mut world);
    grant(&mut world);
    tell(&mut world, "hall/temp", b"20");
    tell(&mut world, "hall/temp", b"21");
    world.pass(3000);
    assert_eq!(numbers(&world.replies(&client), 1), [20.0, 21.0, 21.0, 21.0]);
}

#[test]
fn a_topic_without_messages_is_silent_and_hides_no_other() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = reads(&mut world, &["E:TEMP@q,100", "E:DOOR@I", "E:HUMID@q,100"]);
    let_in(&mut world);
    grant(&mut world);
    tell(&mut world, "hall/temp", b"20");
    world.pass(12_000);
    let replies = world.replies(&client);
    assert_eq!(numbers(&replies, 1), [20.0]);
    assert_eq!(statuses(&replies, 2), [Status::UTIME]);
    // It is already known not to be JSON.
    assert_eq!(statuses(&replies, 3), [Status::INVDATA]);
}

#[test]
fn a_lost_broker_is_reported_and_called_again() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = reads(&mut world, &["E:TEMP@q,100"]);
    let_in(&mut world);
    grant(&mut world);
    tell(&mut world, "hall/temp", b"20");
    world.replies(&client);
    came(&mut world, Came::Down(HALL));
    assert_eq!(statuses(&world.replies(&client), 1), [Status::NODE_DOWN]);
    assert!(!world.to_brokers.iter().any(|goes| matches!(goes, Goes::Connect(..))), "it rests");
    world.pass(1000);
    let_in(&mut world);
    assert_eq!(grant(&mut world), ["hall/temp"]);
    tell(&mut world, "hall/temp", b"20");
    assert_eq!(numbers(&world.replies(&client), 1), [20.0]);
}

#[test]
fn a_broker_that_never_answers_is_given_up() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = reads(&mut world, &["E:TEMP@q,100"]);
    world.pass(5000);
    assert!(world.to_brokers.contains(&Goes::Close(HALL)));
    world.to_brokers.clear();
    // The connection is tried again and again, after growing pauses.
    world.pass(120_000);
    let calls = world.to_brokers.iter().filter(|goes| matches!(goes, Goes::Connect(..))).count();
    assert!((6..=20).contains(&calls), "{calls} calls");
    assert!(statuses(&world.replies(&client), 1).contains(&Status::NODE_DOWN));
    world.to_brokers.clear();
    world.pass(15_000);
    let_in(&mut world);
    grant(&mut world);
    // A broker that doesn't answer pings is also disconnected.
    world.pass(20_000);
    assert!(take_sent(&mut world).contains(&(0xc0, vec![])));
    world.pass(20_000);
    assert!(world.to_brokers.contains(&Goes::Close(HALL)));
}

#[test]
fn a_broker_that_answers_pings_is_kept_and_pinged() {
    let mut world = ServiceWorld::new(DEVICES);
    reads(&mut world, &["E:TEMP@q,100"]);
    let_in(&mut world);
    grant(&mut world);
    let mut pings = 0;
    for _ in 0..300 {
        world.pass(1000);
        for _ in take_sent(&mut world).iter().filter(|(first, _)| *first == 0xc0) {
            pings += 1;
            came(&mut world, Came::Bytes(HALL, b"\xd0\x00"));
        }
    }
    assert!((15..=25).contains(&pings), "{pings} pings");
    assert!(!world.to_brokers.contains(&Goes::Close(HALL)));
}

#[test]
fn refusals_of_a_broker_are_reported() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = reads(&mut world, &["E:TEMP@q,100", "E:DOOR@q,100"]);
    let_in(&mut world);
    let subscribe = take_sent(&mut world).into_iter().find(|(first, _)| *first == 0x82).expect("a packet").1;
    came(&mut world, Came::Bytes(HALL, &[0x90, 4, subscribe[0], subscribe[1], 0x80, 0]));
    tell(&mut world, "hall/door", b"shut");
    let replies = world.replies(&client);
    assert_eq!(statuses(&replies, 1), [Status::PRIV]);
    assert!(format!("{replies:?}").contains("shut"));

    // The broker may refuse the connection as a whole.
    let mut world = ServiceWorld::new(DEVICES);
    let client = reads(&mut world, &["E:TEMP@q,100"]);
    came(&mut world, Came::Up(HALL));
    came(&mut world, Came::Bytes(HALL, b"\x20\x02\x00\x05"));
    assert_eq!(statuses(&world.replies(&client), 1), [Status::PRIV]);
}

#[test]
fn senseless_and_huge_packets_harm_nobody_else() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = reads(&mut world, &["E:TEMP@q,100", "E:DOOR@q,100"]);
    let_in(&mut world);
    grant(&mut world);
    // A message of 16 MiB, of which nothing is kept.
    let mut packet = vec![0x30, 0x80, 0x80, 0x80, 0x08];
    packet.extend_from_slice(b"\x00\x09hall/door");
    came(&mut world, Came::Bytes(HALL, &packet));
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..15 {
        came(&mut world, Came::Bytes(HALL, &piece));
    }
    came(&mut world, Came::Bytes(HALL, &vec![b'x'; (1 << 20) - 11]));
    tell(&mut world, "hall/temp", b"20");
    let replies = world.replies(&client);
    assert_eq!(statuses(&replies, 2), [Status::TRUNC_REPLY]);
    assert_eq!(numbers(&replies, 1), [20.0]);
    // Messages of topics without a subscription are ignored.
    tell(&mut world, "hall/other", b"1");
    assert!(!world.to_brokers.contains(&Goes::Close(HALL)));
    came(&mut world, Came::Bytes(HALL, b"\x00\x00"));
    assert!(world.to_brokers.contains(&Goes::Close(HALL)));
    assert_eq!(statuses(&world.replies(&client), 1), [Status::NODE_DOWN]);
}

#[test]
fn topics_that_nobody_reads_are_given_up() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = reads(&mut world, &["E:TEMP@q,100", "E:DOOR@q,100"]);
    let_in(&mut world);
    grant(&mut world);
    world.dpm.disconnect(client.key);
    world.pass(0);
    world.pass(10_000);
    let unsubscribed = take_sent(&mut world).iter().filter(|(first, _)| *first == 0xa2).count();
    assert_eq!(unsubscribed, 2);
    world.pass(20_000);
    assert!(take_sent(&mut world).contains(&(0xe0, vec![])));
    assert!(world.to_brokers.contains(&Goes::Close(HALL)));
    assert_eq!((world.statistics().topics, world.statistics().brokers), (0, 0));
}

#[test]
fn a_setting_is_published_once_and_acknowledged_by_the_broker() {
    let (mut world, _) = settings::world_of(DEVICES);
    let client = settings::operator(&mut world, "everything");
    world.add(&client, 1, "E:TEMP.SETTING@N");
    world.start(&client);
    world.replies(&client);
    set(&mut world, &client, 19.0);
    let_in(&mut world);
    let published = take_sent(&mut world);
    let [(0x33, body)] = published.as_slice() else { panic!("{published:x?}") };
    assert!(body.starts_with(b"\x00\x0dhall/temp/set") && body.ends_with(br#"{"value":19}"#), "{body:x?}");
    assert_eq!(outcomes(&mut world, &client), []);
    came(&mut world, Came::Bytes(HALL, &[0x40, 2, body[15], body[16]]));
    assert_eq!(outcomes(&mut world, &client), [Status::SUCCESS]);

    // The setting that was sent and not acknowledged may have been made, the unsent one wasn't.
    set(&mut world, &client, 20.0);
    assert_eq!(take_sent(&mut world).len(), 1);
    came(&mut world, Came::Down(HALL));
    assert_eq!(outcomes(&mut world, &client), [Status::UTIME]);
    world.pass(60_000);
    assert!(!take_sent(&mut world).iter().any(|(first, _)| first >> 4 == 3), "it is not sent again");
    set(&mut world, &client, 21.0);
    world.pass(5000);
    assert_eq!(outcomes(&mut world, &client), [Status::NODE_DOWN]);
}

fn set(world: &mut ServiceWorld, client: &TcpClient, value: f64) {
    let scaled_array = Some(vec![ScaledSetting { ref_id: 1, data: vec![value] }]);
    world.ask(client, ApplySettings { list_id: client.list_id, scaled_array, ..ApplySettings::default() });
    world.pass(0);
}

fn outcomes(world: &mut ServiceWorld, client: &TcpClient) -> Vec<Status> {
    let replies = world.replies(client);
    settings::outcomes(&replies).into_iter().map(|(_, status)| status).collect()
}

mod any_bytes {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn whatever_a_broker_sends_harms_nobody(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..12),
            payload in prop::collection::vec(any::<u8>(), 0..60),
            is_in in any::<bool>(),
        ) {
            let mut world = ServiceWorld::new(DEVICES);
            let client = reads(&mut world, &["E:TEMP@q,100", "E:HUMID@p,500", "E:DOOR@I"]);
            if is_in {
                let_in(&mut world);
                grant(&mut world);
                tell(&mut world, "hall/temp", &payload);
            } else {
                came(&mut world, Came::Up(HALL));
            }
            for piece in &pieces {
                came(&mut world, Came::Bytes(HALL, piece));
                world.pass(700);
            }
            // However the connection ended, a correct broker is accepted again.
            came(&mut world, Came::Down(HALL));
            world.to_brokers.clear();
            while !world.to_brokers.iter().any(|goes| matches!(goes, Goes::Connect(..))) {
                world.pass(100);
            }
            world.replies(&client);
            let_in(&mut world);
            grant(&mut world);
            tell(&mut world, "hall/temp", b"20");
            prop_assert!(numbers(&world.replies(&client), 1).contains(&20.0));
        }
    }
}
