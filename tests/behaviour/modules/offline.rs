//! XEP-0160.

use rookery_fanout::Link;
use rookery_hub::Value;
use rookery_jid::Jid;
use rookery_store::{OfflineRoom, StoreError, wait};
use rookery_stream::error::StreamError;
use rookery_xml::{Element, ns};

use super::stage::{DOMAIN, ModuleStage, NOON, assert_refusal, set, switch_off};

/// Brings Romeo on the stage, and makes an account for Juliet.
fn verona(mut stage: ModuleStage) -> (ModuleStage, Link, Jid) {
    let (romeo, juliet) = (stage.account("romeo"), stage.account("juliet"));
    let link = stage.bind(&romeo, "orchard");
    (stage, link, juliet)
}

fn chat(stage: &mut ModuleStage, link: Link, body: &str) {
    stage.say(link, &format!("<message type='chat' id='q' to='juliet@example.org'><body>{body}</body></message>"));
}

/// Returns the bodies of the messages among what was heard.
fn bodies(heard: &[Element]) -> Vec<String> {
    heard
        .iter()
        .filter(|stanza| stanza.name() == "message")
        .filter_map(|stanza| stanza.child_text("body", ns::CLIENT))
        .collect()
}

fn stored_count(stage: &ModuleStage, owner: &Jid) -> u64 {
    wait(stage.stores.offline.count(owner.as_ref())).unwrap()
}

#[test]
fn messages_wait_and_come_with_the_time_when_they_came() {
    let (mut stage, romeo, juliet) = verona(ModuleStage::new());
    chat(&mut stage, romeo, "one");
    stage.world.set_time(61_000, NOON + 61_000);
    stage.say(romeo, "<message to='juliet@example.org/gone' type='chat'><body>two</body></message>");
    stage.world.set_time(3_600_000, NOON + 3_600_000);
    assert!(stage.hear(romeo).is_empty());
    let link = stage.bind(&juliet, "balcony");
    // With a negative priority she takes none.
    stage.say(link, "<presence><priority>-1</priority></presence>");
    assert!(bodies(&stage.hear(link)).is_empty());
    stage.say(link, "<presence/>");
    let heard: Vec<_> = stage.hear(link).into_iter().filter(|stanza| stanza.name() == "message").collect();
    assert_eq!(bodies(&heard), ["one", "two"]);
    let stamps: Vec<_> = heard
        .iter()
        .map(|message| {
            let delay = message.child("delay", ns::DELAY).unwrap();
            assert_eq!(delay.attr("from"), Some(DOMAIN));
            delay.attr("stamp").unwrap()
        })
        .collect();
    assert_eq!(stamps, ["2009-02-13T23:31:30Z", "2009-02-13T23:32:31Z"]);
    assert!(heard.iter().all(|message| message.attr("from") == Some("romeo@example.org/orchard")));
    assert!(heard.iter().all(|message| message.attr("to") == Some(juliet.as_str())));
    assert_eq!(stored_count(&stage, &juliet), 0);
}

#[test]
fn who_writes_too_much_is_told() {
    let stage = ModuleStage::with(|settings| set(settings, "offline", "limit", Value::Number(4)));
    let (mut stage, romeo, juliet) = verona(stage);
    chat(&mut stage, romeo, "one");
    chat(&mut stage, romeo, "two");
    assert!(stage.hear(romeo).is_empty());
    chat(&mut stage, romeo, "three");
    let answer = stage.answer(romeo);
    assert_refusal(&answer, "service-unavailable", "cancel");
    assert_eq!(answer.attr("from"), Some(juliet.as_str()));
    assert_eq!(stored_count(&stage, &juliet), 2);
}

/// RFC 6121 §8.5.1.
#[test]
fn an_account_that_does_not_exist_looks_like_a_full_one() {
    let (mut stage, romeo, _) = verona(ModuleStage::new());
    for type_ in ["chat", "normal"] {
        stage.say(romeo, &format!("<message type='{type_}' id='q' to='nobody@example.org'><body>hi</body></message>"));
        assert_refusal(&stage.answer(romeo), "service-unavailable", "cancel");
    }
}

#[test]
fn what_is_not_for_storage_is_not_stored() {
    let (mut stage, romeo, juliet) = verona(ModuleStage::new());
    for to in [juliet.as_str(), "nobody@example.org"] {
        let composing = "<composing xmlns='http://jabber.org/protocol/chatstates'/>";
        let silent = [
            format!("<message type='chat' to='{to}'>{composing}</message>"),
            format!("<message type='headline' to='{to}'><body>news</body></message>"),
            format!("<message type='error' to='{to}'><body>oh</body></message>"),
            format!("<message to='{to}'><tune xmlns='urn:example'/><no-store xmlns='urn:xmpp:hints'/></message>"),
            format!("<message id='q' to='{to}'><body>psst</body><no-store xmlns='urn:xmpp:hints'/></message>"),
        ];
        for message in silent {
            stage.say(romeo, &message);
            assert!(stage.hear(romeo).is_empty(), "{message}");
        }
        stage.say(romeo, &format!("<message type='groupchat' id='q' to='{to}'><body>all</body></message>"));
        assert_refusal(&stage.answer(romeo), "service-unavailable", "cancel");
    }
    assert_eq!(stored_count(&stage, &juliet), 0);
    stage.say(
        romeo,
        "<message to='juliet@example.org'><body>hi</body><no-permanent-store xmlns='urn:xmpp:hints'/></message>",
    );
    assert_eq!(stored_count(&stage, &juliet), 1);
}

#[test]
fn without_the_module_the_sender_is_told() {
    let (mut stage, romeo, juliet) = verona(ModuleStage::with(|settings| switch_off(settings, "offline")));
    chat(&mut stage, romeo, "one");
    assert_refusal(&stage.answer(romeo), "service-unavailable", "cancel");
    assert_eq!(stored_count(&stage, &juliet), 0);
}

#[test]
fn a_failing_store_is_told_to_the_sender() {
    let (stage, held) = ModuleStage::with_held_store(|_| {});
    let (mut stage, romeo, _) = verona(stage);
    held.set_fault(Some(StoreError::Busy));
    chat(&mut stage, romeo, "one");
    assert_refusal(&stage.answer(romeo), "resource-constraint", "wait");
    held.set_fault(Some(StoreError::Panicked("test".into())));
    chat(&mut stage, romeo, "two");
    assert_refusal(&stage.answer(romeo), "internal-server-error", "cancel");
    assert_eq!(stage.world.counters.store_errors, 2);
}

/// Messages that come while older ones are being read from the store wait behind them.
#[test]
fn nothing_overtakes() {
    let (stage, held) = ModuleStage::with_held_store(|_| {});
    let (mut stage, romeo, juliet) = verona(stage);
    chat(&mut stage, romeo, "one");
    chat(&mut stage, romeo, "two");
    let link = stage.bind(&juliet, "balcony");
    held.set_flowing(false);
    stage.say(link, "<presence/>");
    chat(&mut stage, romeo, "three");
    assert!(bodies(&stage.hear(link)).is_empty());
    while held.release_one() {
        stage.settle();
    }
    chat(&mut stage, romeo, "four");
    assert_eq!(bodies(&stage.hear(link)), ["one", "two", "three", "four"]);
}

#[test]
fn many_portions_come_in_order() {
    let (mut stage, romeo, juliet) = verona(ModuleStage::new());
    let sent: Vec<_> = (0..120).map(|at| format!("{at} {}", "x".repeat(3000))).collect();
    for body in &sent {
        chat(&mut stage, romeo, body);
    }
    let link = stage.bind(&juliet, "balcony");
    stage.say(link, "<presence/>");
    assert_eq!(bodies(&stage.hear(link)), sent);
    assert_eq!(stored_count(&stage, &juliet), 0);
}

/// A backlog that is larger than an outbox neither ends the session nor gets lost, and doesn't stop
/// what else the user does.
#[test]
fn a_slow_reader_gets_all_in_its_own_time() {
    let stage = ModuleStage::with(|settings| {
        settings.outbox = rookery_fanout::OutboxLimits { soft: 10_000, hard: 20_000, ..Default::default() }
    });
    let (mut stage, romeo, juliet) = verona(stage);
    let sent: Vec<_> = (0..50).map(|at| format!("{at} {}", "x".repeat(1000))).collect();
    for body in &sent {
        chat(&mut stage, romeo, body);
    }
    let link = stage.bind(&juliet, "balcony");
    stage.say(link, "<presence/>");
    assert!(stage.world.outboxes.waiting_bytes(link) <= 10_000);
    assert!(stored_count(&stage, &juliet) > 40);
    // Another resource is answered meanwhile.
    let other = stage.bind(&juliet, "chamber");
    let answer = stage.ask(other, "get", DOMAIN, "<ping xmlns='urn:xmpp:ping'/>");
    assert_eq!(answer.attr("type"), Some("result"));
    let mut heard = Vec::new();
    while stage.world.outboxes.has_waiting(link) {
        heard.extend(stage.read(link, 2000));
        stage.settle();
    }
    assert_eq!(bodies(&heard), sent);
    assert_eq!(stage.closes(link), None);
    assert_eq!(stored_count(&stage, &juliet), 0);
    assert_eq!(stage.world.tasks_waiting(), 0);
}

#[test]
fn a_session_that_ends_midway_loses_nothing() {
    let stage = ModuleStage::with(|settings| {
        settings.outbox = rookery_fanout::OutboxLimits { soft: 10_000, hard: 20_000, ..Default::default() }
    });
    let (mut stage, romeo, juliet) = verona(stage);
    let sent: Vec<_> = (0..50).map(|at| format!("{at} {}", "x".repeat(1000))).collect();
    for body in &sent {
        chat(&mut stage, romeo, body);
    }
    let link = stage.bind(&juliet, "balcony");
    stage.say(link, "<presence/>");
    let mut heard = bodies(&stage.read(link, 3500));
    assert!(!heard.is_empty());
    stage.world.set_time(1000, NOON + 1000);
    stage.world.closed(link);
    stage.settle();
    assert_eq!(stored_count(&stage, &juliet) as usize, sent.len() - heard.len());
    assert_eq!(stage.world.tasks_waiting(), 0);
    let again = stage.bind(&juliet, "balcony");
    stage.say(again, "<presence/>");
    let rest = stage.hear(again);
    let messages = rest.iter().filter(|stanza| stanza.name() == "message");
    for message in messages {
        // One stamp, of when it first came.
        let stamps: Vec<_> =
            message.children().filter(|child| child.is("delay", ns::DELAY)).map(|delay| delay.attr("stamp")).collect();
        assert_eq!(stamps, [Some("2009-02-13T23:31:30Z")]);
    }
    heard.extend(bodies(&rest));
    // The messages in the outbox have gone back behind the rest.
    heard.sort_by_key(|body| sent.iter().position(|other| other == body));
    assert_eq!(heard, sent);
    assert_eq!(stored_count(&stage, &juliet), 0);
}

/// A session may end at any point of its delivery. Then the next session gets what it had not read,
/// and only that.
#[test]
fn a_session_that_ends_between_two_answers_of_the_store_loses_nothing() {
    let mut most = 0;
    for (answers, reads) in (0..8).flat_map(|answers| [(answers, false), (answers, true)]) {
        let (stage, held) = ModuleStage::with_held_store(|_| {});
        let (mut stage, romeo, juliet) = verona(stage);
        for body in ["one", "two", "three"] {
            chat(&mut stage, romeo, body);
        }
        let link = stage.bind(&juliet, "balcony");
        held.set_flowing(false);
        stage.say(link, "<presence/>");
        for _ in 0..answers {
            held.release_one();
            stage.settle();
        }
        let heard = if reads { bodies(&stage.hear(link)).len() } else { 0 };
        most = most.max(heard);
        stage.world.closed(link);
        held.set_flowing(true);
        held.release_all();
        stage.settle();
        let left = 3 - heard as u64;
        assert_eq!(stored_count(&stage, &juliet), left, "{heard} read after {answers} answers");
        let again = stage.bind(&juliet, "balcony");
        stage.say(again, "<presence/>");
        assert_eq!(bodies(&stage.hear(again)).len() as u64, left);
        assert_eq!(stored_count(&stage, &juliet), 0);
        assert_eq!(stage.world.tasks_waiting(), 0);
    }
    assert_eq!(most, 3);
}

/// A session that becomes reachable takes over; nobody gets a message twice.
#[test]
fn a_second_session_takes_over() {
    let (stage, held) = ModuleStage::with_held_store(|_| {});
    let (mut stage, romeo, juliet) = verona(stage);
    chat(&mut stage, romeo, "one");
    let (first, second) = (stage.bind(&juliet, "balcony"), stage.bind(&juliet, "chamber"));
    held.set_flowing(false);
    stage.say(first, "<presence/>");
    stage.say(second, "<presence/>");
    while held.release_one() {
        stage.settle();
    }
    assert_eq!(bodies(&stage.hear(first)).len() + bodies(&stage.hear(second)).len(), 1);
    assert_eq!(stored_count(&stage, &juliet), 0);
    // The same session twice.
    held.set_flowing(true);
    stage.say(first, "<presence type='unavailable'/>");
    stage.say(second, "<presence type='unavailable'/>");
    chat(&mut stage, romeo, "two");
    stage.hear(first);
    held.set_flowing(false);
    stage.say(first, "<presence/>");
    while held.waiting() > 1 {
        held.release_one();
        stage.settle();
    }
    stage.say(first, "<presence><priority>-1</priority></presence>");
    stage.say(first, "<presence><priority>1</priority></presence>");
    while held.release_one() {
        stage.settle();
    }
    assert_eq!(bodies(&stage.hear(first)), ["two"]);
}

/// Another session that takes messages gets the rest if the one that is being served goes away.
#[test]
fn another_session_gets_the_rest() {
    let stage = ModuleStage::with(|settings| {
        settings.outbox = rookery_fanout::OutboxLimits { soft: 10_000, hard: 20_000, ..Default::default() }
    });
    let (mut stage, romeo, juliet) = verona(stage);
    let laptop = stage.bind(&juliet, "laptop");
    for at in 0..30 {
        chat(&mut stage, romeo, &format!("{at} {}", "x".repeat(1000)));
    }
    let phone = stage.bind(&juliet, "phone");
    // The laptop first: the phone takes over, and dies.
    stage.say(laptop, "<presence/>");
    stage.say(phone, "<presence/>");
    stage.world.closed(phone);
    stage.settle();
    let mut heard = bodies(&stage.hear(laptop));
    heard.sort_by_key(|body| body.split(' ').next().and_then(|at| at.parse::<u32>().ok()));
    heard.dedup();
    assert_eq!(heard.len(), 30);
    assert_eq!(stored_count(&stage, &juliet), 0);
}

#[test]
fn a_message_larger_than_an_outbox_ends_the_session_but_stays() {
    let stage = ModuleStage::with(|settings| {
        settings.outbox = rookery_fanout::OutboxLimits { soft: 1000, hard: 2000, ..Default::default() }
    });
    let (mut stage, romeo, juliet) = verona(stage);
    chat(&mut stage, romeo, &"x".repeat(5000));
    let link = stage.bind(&juliet, "balcony");
    stage.say(link, "<presence/>");
    stage.hear(link);
    assert_eq!(stage.closes(link), Some(StreamError::ResourceConstraint));
    assert_eq!(stored_count(&stage, &juliet), 1);
    stage.world.closed(link);
    stage.settle();
    assert_eq!(stage.world.tasks_waiting(), 0);
}

#[test]
fn damaged_messages_do_not_block_those_behind_them() {
    let (mut stage, romeo, juliet) = verona(ModuleStage::new());
    wait(stage.stores.offline.push(juliet.as_ref(), juliet.as_ref(), b"<message".to_vec(), NOON, OfflineRoom::of(10)))
        .unwrap();
    chat(&mut stage, romeo, "one");
    let link = stage.bind(&juliet, "balcony");
    stage.say(link, "<presence/>");
    assert_eq!(bodies(&stage.hear(link)), ["one"]);
    assert_eq!(stored_count(&stage, &juliet), 0);
}

#[test]
fn a_store_that_fails_while_delivering_lets_everybody_go_on() {
    let (stage, held) = ModuleStage::with_held_store(|_| {});
    let (mut stage, romeo, juliet) = verona(stage);
    chat(&mut stage, romeo, "one");
    let link = stage.bind(&juliet, "balcony");
    held.set_fault(Some(StoreError::Busy));
    stage.say(link, "<presence/>");
    assert!(stage.world.counters.store_errors > 0);
    chat(&mut stage, romeo, "two");
    assert_eq!(bodies(&stage.hear(link)), ["two"]);
    held.set_fault(None);
    assert_eq!(stored_count(&stage, &juliet), 1);
}
