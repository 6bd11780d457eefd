use proptest::prelude::*;
use rookery_fanout::{Addresses, Packet};
use rookery_jid::Jid;
use serde::{Deserialize, Serialize};

use super::*;
use crate::reply::AnswerPlace;
use crate::{Hooks, LETTERS, Memo, Module, Question, QuestionReply};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct PostWord(String);

impl Memo for PostWord {
    const NAME: &'static str = "test word";

    fn open(self, _: &mut World) {}
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct PostWhat(u64, Option<Jid>);

impl Question for PostWhat {
    const NAME: &'static str = "test what";
    type Answer = ();

    fn ask(self, _: &mut World, _: QuestionReply<()>) {}
}

/// A memo that earlier versions don't know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct PostLater;

impl Memo for PostLater {
    const NAME: &'static str = "test later";
    const SINCE: u16 = 2;

    fn open(self, _: &mut World) {}
}

struct PostKinds;

impl Module for PostKinds {
    fn name(&self) -> &'static str {
        "kinds"
    }

    fn summary(&self) -> &'static str {
        "declares kinds"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.memo::<PostWord>();
        hooks.question::<PostWhat>();
    }
}

fn registry() -> Registry {
    Registry::new(vec![Box::new(PostKinds)])
}

fn jid() -> impl Strategy<Value = Jid> {
    "[a-z]{1,8}(@[a-zßéΩ]{1,8}[.]org)?(/[a-zA-Z0-9 ✓]{0,7}[a-z])?"
        .prop_filter_map("an address", |text| Jid::parse(&text).ok())
}

fn packet() -> impl Strategy<Value = Packet> {
    let kinds = prop::sample::select(vec!["message", "presence", "iq type='get' id='1'", "message type='chat'"]);
    (kinds, "[^\\x00-\\x1f<&\\ufffe\\uffff]{0,40}", any::<bool>()).prop_map(|(start, text, with_child)| {
        let name = start.split(' ').next().unwrap_or_default();
        let bytes = format!("<{start} from='a@x/y'><body>{text}</body></{name}>");
        let packet = Packet::from_bytes(bytes.as_bytes()).expect("a stanza");
        if with_child { packet.with_child(&rookery_xml::Writer::new("x").finish()) } else { packet }
    })
}

fn names() -> impl Strategy<Value = Addresses> {
    prop::collection::vec((any::<u64>(), jid()), 0..5).prop_map(|found| {
        let mut names = Addresses::default();
        found.iter().for_each(|(hash, name)| names.push(*hash, name.as_str()));
        names
    })
}

fn asker() -> impl Strategy<Value = AnswerPlace> {
    any::<((u16, u32, u16), u64, u32)>().prop_map(|parts| {
        postcard::from_bytes(&postcard::to_allocvec(&parts).expect("three numbers")).expect("an asker")
    })
}

fn mail() -> impl Strategy<Value = Mail> {
    prop_oneof![
        (jid(), packet()).prop_map(|(to, packet)| Mail::Route { to, packet }),
        (names(), packet()).prop_map(|(to, packet)| Mail::Copies { to: Arc::new(to), packet }),
        (jid(), prop::collection::vec(packet(), 0..4)).prop_map(|(to, packets)| Mail::Bundle { to, packets }),
        (jid(), packet()).prop_map(|(to, packet)| Mail::Service { to, packet }),
        (jid(), names()).prop_map(|(from, to)| Mail::Probe { from, to }),
        "\\PC{0,20}".prop_map(|text| Mail::Memo(Box::new(PostWord(text)))),
        (any::<u64>(), prop::option::of(jid()), asker())
            .prop_map(|(number, jid, asker)| Mail::Question { question: Box::new(PostWhat(number, jid)), asker }),
        (asker(), any::<Vec<u8>>()).prop_map(|(asker, answer)| Mail::Reply { asker, answer }),
    ]
}

fn config() -> ProptestConfig {
    ProptestConfig { rng_seed: proptest::test_runner::RngSeed::Fixed(13), ..ProptestConfig::with_cases(500) }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn mail_is_the_same_on_the_other_side(mail in mail()) {
        let (registry, parcel) = (registry(), Parcel { mail, custody: None });
        let bytes = parcel.encode().unwrap();
        let read = Parcel::decode(&bytes, &registry).unwrap();
        prop_assert_eq!(format!("{read:?}"), format!("{parcel:?}"));
        prop_assert_eq!(read.encode().unwrap(), bytes);
    }

    #[test]
    fn any_bytes_are_mail_or_refused(bytes: Vec<u8>, mail in mail(), cut: prop::sample::Index) {
        let registry = registry();
        let _ = Parcel::decode(&bytes, &registry);
        let mut bytes = Parcel { mail, custody: None }.encode().unwrap();
        let cut = cut.index(bytes.len());
        prop_assert!(Parcel::decode(&bytes[..cut], &registry).is_err(), "cut at {} of {}", cut, bytes.len());
        bytes.push(0);
        prop_assert!(Parcel::decode(&bytes, &registry).is_err(), "with a byte too many");
    }
}

#[test]
fn a_multicast_for_another_server_is_the_same_on_the_other_side() {
    let packet = Packet::from_bytes(b"<message from='a@x/y'><body>hi</body></message>").unwrap();
    let to = Jid::parse("b@remote.example").unwrap();
    let distant = rookery_fanout::multicast::bcc("remote.example".into(), &packet, [to]);
    let parcel = Parcel { mail: Mail::Distant(Box::new(distant)), custody: None };
    let read = Parcel::decode(&parcel.encode().unwrap(), &registry()).unwrap();
    assert_eq!(format!("{read:?}"), format!("{parcel:?}"));
}

/// 0.2.0 has a bare true or false where the marks are, and drops a stanza with others.
#[test]
fn an_earlier_version_gets_what_it_understands() {
    let packet = Packet::from_bytes(b"<message from='a@x/y'><body>hi</body></message>").unwrap();
    let to = Jid::parse("b@x").unwrap();
    let names = || {
        let mut names = Addresses::default();
        names.push(7, "b@x");
        Arc::new(names)
    };
    let all = |packet: &Packet| {
        let (to, packet) = (to.clone(), packet.clone());
        [
            Mail::Route { to: to.clone(), packet: packet.clone() },
            Mail::Copies { to: names(), packet: packet.clone() },
            Mail::Bundle { to: to.clone(), packets: vec![packet.clone(), packet.clone()] },
            Mail::Service { to: to.clone(), packet: packet.clone() },
            Mail::Incoming { to, packet },
        ]
    };
    let encode = |mail: Mail, letters| Parcel { mail, custody: None }.encode_for(letters).unwrap();
    for (once, again) in all(&packet).into_iter().zip(all(&packet.again())) {
        let plain = encode(once, LETTERS);
        assert_eq!(encode(again, 1), plain, "without the mark");
    }
    for again in all(&packet.again()) {
        let marked = encode(again, LETTERS).unwrap();
        assert!(format!("{:?}", Parcel::decode(&marked, &registry()).unwrap()).contains("again: true"));
    }
    assert!(encode(Mail::Memo(Box::new(PostWord("x".into()))), 1).is_some());
    let later = || Mail::Memo(Box::new(PostLater));
    assert!(encode(later(), 1).is_none() && encode(later(), 2).is_some());
}

#[test]
fn what_this_server_does_not_know_is_refused() {
    let known = registry();
    let word = Parcel { mail: Mail::Memo(Box::new(PostWord("x".into()))), custody: None };
    let bytes = word.encode().unwrap();
    let unknown = Parcel::decode(&bytes, &Registry::new(Vec::new())).unwrap_err();
    assert_eq!(unknown, MailError::UnknownKind("test word".to_owned()));
    let newer = [&[VERSION + 1], &bytes[1..]].concat();
    assert_eq!(Parcel::decode(&newer, &known).unwrap_err(), MailError::Version(Some(VERSION + 1)));
    assert_eq!(Parcel::decode(&[], &known).unwrap_err(), MailError::Version(None));
    let large = vec![VERSION; MAX_BYTES + 1];
    assert_eq!(Parcel::decode(&large, &known).unwrap_err(), MailError::TooLarge(MAX_BYTES + 1));
}
