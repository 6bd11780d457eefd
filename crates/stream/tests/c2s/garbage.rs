//! Tests that the machine replies to anything a peer sends with XML or not at all, and that the
//! pieces it comes in don't matter.

use proptest::prelude::*;
use rookery_stream::c2s::C2sEvent;

use crate::dialogue::{DialoguePlayer, OPEN, in_the_clear, machine, policy, secure};
use crate::sasl2::with_sasl2;

/// Returns a strategy for pieces of a stream: some get a peer somewhere, and others don't.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        OPEN,
        "<stream:stream xmlns='jabber:client' ",
        "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGp1bGlldABwZW5jaWw=</auth>",
        "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='SCRAM-SHA-1'>biwsbj1qdWxpZXQscj1h</auth>",
        "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='SCRAM-SHA-1'/>",
        "<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>biwsbj1qdWxpZXQscj1h</response>",
        "<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>=</response>",
        "<abort xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>",
        "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>",
        "<iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>x</resource></bind></iq>",
        "<iq type='get' id='1'><query xmlns='jabber:iq:register'/></iq>",
        "<resume xmlns='urn:xmpp:sm:3' previd='1' h='1'/>",
        "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='PLAIN'><initial-response>AGp1bGlldABwZW5jaWw=</initial-response>\
         <bind xmlns='urn:xmpp:bind:0'/><resume xmlns='urn:xmpp:sm:3' previd='1' h='1'/></authenticate>",
        "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='SCRAM-SHA-1'/>",
        "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='HT-SHA-256-NONE'><initial-response>anVsaWV0ADEyMw==</initial-response>\
         <user-agent id='1'/><request-token xmlns='urn:xmpp:fast:0' mechanism='HT-SHA-256-NONE'/></authenticate>",
        "<response xmlns='urn:xmpp:sasl:2'>biwsbj1qdWxpZXQscj1h</response>",
        "<abort xmlns='urn:xmpp:sasl:2'/>",
        "<r xmlns='urn:xmpp:sm:3'/>",
        "<stream:a/>",
        "</stream:stream>",
        " ",
        "<a",
        ">",
        "'",
        "&#",
    ]);
    prop_oneof![
        6 => known.prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ]
}

/// Feeds pieces and answers every question; returns the events.
fn feed(pieces: &[Vec<u8>], tls: bool, right: bool) -> (String, Vec<String>) {
    let mut player = DialoguePlayer::new(machine(with_sasl2(), if tls { in_the_clear() } else { secure() }));
    let mut events = Vec::new();
    let mut ended = false;
    for piece in pieces {
        player.receive(piece);
        while let Some(event) = player.event() {
            assert!(!ended, "nothing follows the end");
            ended = event == C2sEvent::End;
            events.push(format!("{event:?}"));
            match event {
                C2sEvent::StartTls => player.answer("tls"),
                C2sEvent::Credentials { .. } => player.answer(if right { "account" } else { "no account" }),
                C2sEvent::Verify { .. } => player.answer(if right { "right" } else { "wrong" }),
                C2sEvent::Anonymous { .. } => player.answer("right"),
                C2sEvent::Bearer { .. } => player.answer("store"),
                C2sEvent::Bind { .. } => player.answer("refused conflict"),
                C2sEvent::Tokens { .. } => player.answer("tokens"),
                C2sEvent::Token { .. } => player.answer("token"),
                C2sEvent::Resume { .. } => player.answer("unknown"),
                C2sEvent::BindInline { .. } => player.answer("inline juliet@example.org/x"),
                C2sEvent::BeforeLogin { .. } => player.answer("reply <iq/>"),
                C2sEvent::Failed { .. } | C2sEvent::Authenticated { .. } | C2sEvent::BegunAgain | C2sEvent::End => {}
            }
        }
        assert!(player.rest().len() <= policy().limits_before.bytes, "the caller keeps one element at most");
    }
    (player.take_sent(), events)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_input_is_survived(
        pieces in prop::collection::vec(piece(), 0..12),
        opened in any::<bool>(),
        tls in any::<bool>(),
        right in any::<bool>(),
    ) {
        let opening = opened.then(|| OPEN.as_bytes().to_vec());
        let pieces: Vec<_> = opening.into_iter().chain(pieces).collect();
        let (sent, events) = feed(&pieces, tls, right);
        prop_assert!(sent.is_empty() || sent.starts_with("<?xml version='1.0'?><stream:stream ") || sent.starts_with("<proceed "));
        // RFC 6120 §4.4: the side that ends a stream says so, unless TLS came in between.
        if events.last().is_some_and(|event| event == "End") && !tls {
            prop_assert!(sent.ends_with("</stream:stream>"), "{sent}");
        }
    }

    /// This leaves out SCRAM, whose nonces differ, and STARTTLS, after which a pause is the point.
    #[test]
    fn the_pieces_do_not_matter(
        pieces in prop::collection::vec(piece(), 0..12),
        right in any::<bool>(),
    ) {
        let unsteady = |piece: &[u8]| [&b"SCRAM"[..], b"starttls"].iter().any(|word| piece.windows(word.len()).any(|window| window == *word));
        let pieces: Vec<_> = std::iter::once(OPEN.as_bytes().to_vec())
            .chain(pieces.into_iter().filter(|piece| !unsteady(piece)))
            .collect();
        let bytes: Vec<_> = pieces.concat().into_iter().map(|byte| vec![byte]).collect();
        prop_assert_eq!(feed(&[pieces.concat()], false, right), feed(&bytes, false, right));
    }
}
