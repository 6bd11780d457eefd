use super::*;

fn message(len: usize) -> Packet {
    let body = "x".repeat(len);
    Packet::from_bytes(format!("<message from='a@x/r'><body>{body}</body></message>").as_bytes()).unwrap()
}

fn presence(from: &str, show: &str) -> Packet {
    Packet::from_bytes(format!("<presence from='{from}'><show>{show}</show></presence>").as_bytes()).unwrap()
}

fn open(outboxes: &mut Outboxes, link: u32) -> Link {
    outboxes.open(Link(link), Jid::parse(&format!("u{link}@x/r")).unwrap());
    Link(link)
}

fn render_all(outboxes: &Outboxes, link: Link) -> String {
    let mut out = Vec::new();
    outboxes.render(link, usize::MAX, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn the_recipient_is_spliced_in_and_escaped() {
    let mut outboxes = Outboxes::default();
    outboxes.open(Link(0), Jid::parse("u@x/it's <me>").unwrap());
    assert_eq!(outboxes.push(Link(0), &message(1), To::Full), PushOutcome::Queued);
    assert_eq!(outboxes.push(Link(0), &message(1), To::Bare), PushOutcome::Queued);
    let text = render_all(&outboxes, Link(0));
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
        assert_eq!(outboxes.push(link, &message(10), To::Full), PushOutcome::Queued);
    }
    let all = render_all(&outboxes, link);
    let one = all.len() / 3;
    outboxes.remove_sent(link, one + 5);
    assert_eq!(render_all(&outboxes, link), all[one + 5..]);
    assert_eq!(outboxes.waiting_bytes(link), all.len() - one - 5);
    assert_eq!(outboxes.abandon(link).len(), 2, "a stanza that went out in part counts as not sent");
    outboxes.close(link);
    assert_eq!(outboxes.waiting_total(), 0);
    assert_eq!(outboxes.push(link, &message(1), To::Full), PushOutcome::Gone);
}

#[test]
fn what_is_abandoned_comes_back_once_and_a_begun_stanza_can_be_ended() {
    let mut outboxes = Outboxes::default();
    let link = open(&mut outboxes, 0);
    for len in 1..=3 {
        assert_eq!(outboxes.push(link, &message(len), To::Full), PushOutcome::Queued);
    }
    let whole = render_all(&outboxes, link);
    let first = whole.find("</message>").unwrap() + "</message>".len();
    outboxes.remove_sent(link, first - 4);
    assert_eq!(outboxes.abandon(link).len(), 3);
    let mut rest = Vec::new();
    outboxes.append_rest(link, &mut rest);
    assert_eq!(rest, b"age>");
    assert_eq!(outboxes.push(link, &message(1), To::Full), PushOutcome::Gone);
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
    assert!(outboxes.when_drained(link, tell(&told)));
    assert_eq!(*told.lock().unwrap(), [0], "nothing waits: at once");
    for to in [To::Kept, To::Bare, To::Kept, To::Kept] {
        assert_eq!(outboxes.push(link, &message(10), to), PushOutcome::Queued);
    }
    assert!(outboxes.when_drained(link, tell(&told)));
    let one = render_all(&outboxes, link).len() / 4;
    outboxes.remove_sent(link, one + 1);
    assert_eq!(*told.lock().unwrap(), [0]);
    let given_back = outboxes.abandon(link);
    assert_eq!(given_back.iter().map(|unsent| unsent.number).collect::<Vec<_>>(), [1], "only what nobody keeps");
    assert_eq!(*told.lock().unwrap(), [0, 2]);
    assert!(!outboxes.when_drained(link, tell(&told)), "nobody knows what was sent");
    outboxes.close(link);
    assert!(!outboxes.when_drained(link, tell(&told)));
    assert_eq!(*told.lock().unwrap(), [0, 2]);
}

#[test]
fn above_the_soft_limit_newer_presence_replaces_older() {
    let mut outboxes = Outboxes::new(OutboxLimits { soft: 200, hard: 400, ..OutboxLimits::default() });
    let link = open(&mut outboxes, 0);
    assert_eq!(outboxes.push(link, &message(100), To::Full), PushOutcome::Queued);
    assert_eq!(outboxes.push(link, &presence("b@x/1", "away"), To::Bare), PushOutcome::Queued);
    assert_eq!(outboxes.push(link, &presence("b@x/1", "chat"), To::Bare), PushOutcome::Queued);
    let text = render_all(&outboxes, link);
    assert!(text.contains("chat") && !text.contains("away"), "{text}");
    assert_eq!(outboxes.push(link, &message(300), To::Full), PushOutcome::Overflow);
    assert_eq!(render_all(&outboxes, link), text, "what is refused changes nothing");
}

#[test]
fn a_full_shard_names_those_who_hold_most() {
    let mut outboxes = Outboxes::new(OutboxLimits { soft: 300, hard: 10_000, total: 3000, ..OutboxLimits::default() });
    let [fat, fatter, thin] = [0, 1, 2].map(|link| open(&mut outboxes, link));
    for (link, number) in [(fat, 5), (fatter, 6)] {
        (0..number).for_each(|_| assert_eq!(outboxes.push(link, &message(150), To::Full), PushOutcome::Queued));
    }
    while !outboxes.is_crowded() {
        assert_eq!(outboxes.push(thin, &message(10), To::Full), PushOutcome::Queued);
        if outboxes.waiting_bytes(thin) > 200 {
            assert_eq!(outboxes.push(fatter, &message(500), To::Full) == PushOutcome::Crowded, outboxes.is_crowded());
        }
    }
    assert_eq!(outboxes.fattest().map(|account| account.to_string()).as_deref(), Some("u1@x"));
    assert_eq!(outboxes.push(thin, &message(1), To::Full), PushOutcome::Queued, "who reads notices nothing");
    outboxes.abandon(fatter);
    outboxes.close(fatter);
    assert!(!outboxes.is_crowded());
    assert_eq!(outboxes.fattest().map(|account| account.to_string()).as_deref(), Some("u0@x"));
    let all = render_all(&outboxes, fat).len();
    outboxes.remove_sent(fat, all);
    assert!(outboxes.fattest().is_none());
    outboxes.close(thin);
    assert_eq!(outboxes.waiting_total(), 0);
}

#[test]
fn all_sessions_of_an_account_together_have_a_limit() {
    let mut outboxes =
        Outboxes::new(OutboxLimits { soft: 300, hard: 10_000, account: 3000, ..OutboxLimits::default() });
    for link in 0..4 {
        outboxes.open(Link(link), Jid::parse(&format!("u@x/{link}")).unwrap());
    }
    let other = open(&mut outboxes, 5);
    let mut taken = 0;
    while outboxes.push(Link(taken % 4), &message(150), To::Full) == PushOutcome::Queued {
        taken += 1;
        assert_eq!(outboxes.push(other, &message(1), To::Full), PushOutcome::Queued);
        let all = render_all(&outboxes, other).len();
        outboxes.remove_sent(other, all);
    }
    assert!((12..16).contains(&taken), "{taken}");
    // Available presence is left out before a session ends because of it.
    assert_eq!(outboxes.push(Link(0), &presence("b@x/1", &"x".repeat(100)), To::Bare), PushOutcome::Queued);
    assert!(!render_all(&outboxes, Link(0)).contains("presence"));
    for link in 0..4 {
        let all = render_all(&outboxes, Link(link)).len();
        outboxes.remove_sent(Link(link), all);
    }
    assert_eq!((outboxes.waiting_total(), outboxes.fattest()), (0, None));
}

#[test]
fn what_is_paced_ends_no_session_and_keeps_its_place() {
    let told = std::sync::Arc::new(std::sync::Mutex::new(0));
    let mut outboxes = Outboxes::new(OutboxLimits { soft: 300, hard: 1000, paced: 5000, ..OutboxLimits::default() });
    let link = open(&mut outboxes, 0);
    let tell = || {
        let told = told.clone();
        move || *told.lock().unwrap() += 1
    };
    outboxes.when_room(link, tell());
    assert_eq!(*told.lock().unwrap(), 1, "there is room: at once");
    assert_eq!(outboxes.push(link, &message(100), To::Full), PushOutcome::Queued);
    for _ in 0..8 {
        assert_eq!(outboxes.push_paced(link, &message(500), To::Full), PushOutcome::Queued);
    }
    assert_eq!(outboxes.push(link, &message(500), To::Full), PushOutcome::Queued, "it doesn't count for the rest");
    assert_eq!(outboxes.push(link, &message(500), To::Full), PushOutcome::Overflow);
    outboxes.when_room(link, tell());
    let all = render_all(&outboxes, link);
    assert_eq!(all.matches("<message").count(), 10);
    assert!(all.len() == outboxes.waiting_bytes(link) && all.len() == outboxes.waiting_total());
    outboxes.remove_sent(link, all.len() - 400);
    assert_eq!(*told.lock().unwrap(), 1);
    outboxes.remove_sent(link, 200);
    assert_eq!(*told.lock().unwrap(), 2, "most is sent");
    outboxes.remove_sent(link, 200);
    assert_eq!(outboxes.waiting_total(), 0);
    // An item that is larger than the limit of all comes alone.
    assert_eq!(outboxes.push_paced(link, &message(9000), To::Full), PushOutcome::Queued);
    assert_eq!(outboxes.push_paced(link, &message(9), To::Full), PushOutcome::Overflow);
    outboxes.when_room(link, tell());
    assert_eq!(outboxes.abandon(link).len(), 0, "its sender sends it again");
    outboxes.close(link);
    assert_eq!((*told.lock().unwrap(), outboxes.waiting_total()), (2, 0));
}

#[test]
fn presence_above_the_hard_limit_ends_no_session() {
    let mut outboxes = Outboxes::new(OutboxLimits { soft: 300, hard: 1000, paced: 5000, ..OutboxLimits::default() });
    let link = open(&mut outboxes, 0);
    for contact in 0..100 {
        assert_eq!(
            outboxes.push(link, &presence(&format!("b{contact}@x/1"), &"x".repeat(100)), To::Bare),
            PushOutcome::Queued
        );
    }
    let text = render_all(&outboxes, link);
    assert!((5000..6200).contains(&text.len()), "{}", text.len());
    assert_eq!(outboxes.push(link, &presence("b30@x/1", "away"), To::Bare), PushOutcome::Queued);
    assert!(render_all(&outboxes, link).contains("away"), "what is there is replaced");
    let all = render_all(&outboxes, link).len();
    outboxes.remove_sent(link, all);
    assert_eq!(outboxes.waiting_total(), 0);
}
