use super::*;

fn message(len: usize) -> Packet {
    let body = "x".repeat(len);
    Packet::scanned(format!("<message from='a@x/r'><body>{body}</body></message>").as_bytes()).unwrap()
}

fn presence(from: &str, show: &str) -> Packet {
    Packet::scanned(format!("<presence from='{from}'><show>{show}</show></presence>").as_bytes()).unwrap()
}

fn open(outboxes: &mut Outboxes, link: u32) -> Link {
    outboxes.open(Link(link), Jid::parse(&format!("u{link}@x/r")).unwrap());
    Link(link)
}

fn rendered(outboxes: &Outboxes, link: Link) -> String {
    let mut out = Vec::new();
    outboxes.render(link, usize::MAX, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn the_recipient_is_spliced_in_and_escaped() {
    let mut outboxes = Outboxes::default();
    outboxes.open(Link(0), Jid::parse("u@x/it's <me>").unwrap());
    assert_eq!(outboxes.push(Link(0), &message(1), To::Full), Pushed::Queued);
    assert_eq!(outboxes.push(Link(0), &message(1), To::Bare), Pushed::Queued);
    let text = rendered(&outboxes, Link(0));
    assert!(
        text.starts_with("<message to='u@x/it&apos;s &lt;me&gt;' from='a@x/r'>") || text.contains("&#39;"),
        "{text}"
    );
    assert!(text.contains("<message to='u@x' from="), "{text}");
}

#[test]
fn what_the_transport_took_is_removed_and_the_rest_comes_back() {
    let mut outboxes = Outboxes::default();
    let link = open(&mut outboxes, 0);
    for _ in 0..3 {
        assert_eq!(outboxes.push(link, &message(10), To::Full), Pushed::Queued);
    }
    let all = rendered(&outboxes, link);
    let one = all.len() / 3;
    outboxes.sent(link, one + 5);
    assert_eq!(rendered(&outboxes, link), all[one + 5..]);
    assert_eq!(outboxes.waiting_bytes(link), all.len() - one - 5);
    assert_eq!(outboxes.abandon(link).len(), 2, "a stanza that went out in part counts as not sent");
    outboxes.close(link);
    assert_eq!(outboxes.waiting_total(), 0);
    assert_eq!(outboxes.push(link, &message(1), To::Full), Pushed::Gone);
}

#[test]
fn what_is_abandoned_comes_back_once_and_a_begun_stanza_can_be_ended() {
    let mut outboxes = Outboxes::default();
    let link = open(&mut outboxes, 0);
    for len in 1..=3 {
        assert_eq!(outboxes.push(link, &message(len), To::Full), Pushed::Queued);
    }
    let whole = rendered(&outboxes, link);
    let first = whole.find("</message>").unwrap() + "</message>".len();
    outboxes.sent(link, first - 4);
    assert_eq!(outboxes.abandon(link).len(), 3);
    let mut rest = Vec::new();
    outboxes.unfinished(link, &mut rest);
    assert_eq!(rest, b"age>");
    assert_eq!(outboxes.push(link, &message(1), To::Full), Pushed::Gone);
    assert_eq!(outboxes.abandon(link).len(), 0);
    outboxes.close(link);
    assert_eq!(outboxes.waiting_total(), 0);
}

#[test]
fn who_keeps_a_stanza_until_it_was_sent_hears_what_was_not() {
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let tell = |told: &std::sync::Arc<std::sync::Mutex<Vec<usize>>>| {
        let told = told.clone();
        move |unsent| told.lock().unwrap().push(unsent)
    };
    let mut outboxes = Outboxes::default();
    let link = open(&mut outboxes, 0);
    outboxes.when_drained(link, tell(&told));
    assert_eq!(*told.lock().unwrap(), [0], "nothing waits: at once");
    for to in [To::Kept, To::Bare, To::Kept, To::Kept] {
        assert_eq!(outboxes.push(link, &message(10), to), Pushed::Queued);
    }
    outboxes.when_drained(link, tell(&told));
    let one = rendered(&outboxes, link).len() / 4;
    outboxes.sent(link, one + 1);
    assert_eq!(*told.lock().unwrap(), [0]);
    let given_back = outboxes.abandon(link);
    assert_eq!(given_back.iter().map(|unsent| unsent.number).collect::<Vec<_>>(), [1], "only what nobody keeps");
    assert_eq!(*told.lock().unwrap(), [0, 2]);
}

#[test]
fn above_the_soft_limit_newer_presence_replaces_older() {
    let mut outboxes = Outboxes::new(Limits { soft: 200, hard: 400, ..Limits::default() });
    let link = open(&mut outboxes, 0);
    assert_eq!(outboxes.push(link, &message(100), To::Full), Pushed::Queued);
    assert_eq!(outboxes.push(link, &presence("b@x/1", "away"), To::Bare), Pushed::Queued);
    assert_eq!(outboxes.push(link, &presence("b@x/1", "chat"), To::Bare), Pushed::Queued);
    let text = rendered(&outboxes, link);
    assert!(text.contains("chat") && !text.contains("away"), "{text}");
    assert_eq!(outboxes.push(link, &message(300), To::Full), Pushed::Overflow);
    assert_eq!(rendered(&outboxes, link), text, "what is refused changes nothing");
}

#[test]
fn a_full_shard_refuses_the_fattest_queues() {
    let mut outboxes = Outboxes::new(Limits { soft: 300, hard: 10_000, total: 1000 });
    let (fat, thin) = (open(&mut outboxes, 0), open(&mut outboxes, 1));
    while outboxes.waiting_total() <= 1000 {
        assert_eq!(outboxes.push(fat, &message(100), To::Full), Pushed::Queued);
    }
    assert_eq!(outboxes.push(fat, &message(100), To::Full), Pushed::Overflow);
    assert_eq!(outboxes.push(thin, &message(100), To::Full), Pushed::Queued);
}
