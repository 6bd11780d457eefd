//! XEP-0388 with the features that it may include: XEP-0198 §9, XEP-0386.

use rookery_stream::c2s::{Policy, Sasl2};

use crate::dialogue::{DialoguePlayer, OPEN, machine, play, policy, secure};

/// Returns the policy with all of these features.
pub fn with_sasl2() -> Policy {
    let mut policy = policy();
    policy.hosts[0].sasl2 =
        Some(Sasl2 { resumption: true, fast: true, bind: Some(vec!["urn:xmpp:sm:3", "urn:xmpp:csi:0"]) });
    policy
}

const FEATURES: &str = "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>\
     <mechanism>SCRAM-SHA-512</mechanism><mechanism>SCRAM-SHA-256</mechanism><mechanism>SCRAM-SHA-1</mechanism>\
     <mechanism>PLAIN</mechanism></mechanisms>\
     <authentication xmlns='urn:xmpp:sasl:2'><mechanism>SCRAM-SHA-512</mechanism><mechanism>SCRAM-SHA-256</mechanism>\
     <mechanism>SCRAM-SHA-1</mechanism><mechanism>PLAIN</mechanism><inline><sm xmlns='urn:xmpp:sm:3'/>\
     <bind xmlns='urn:xmpp:bind:0'><inline><feature var='urn:xmpp:sm:3'/><feature var='urn:xmpp:csi:0'/></inline></bind>\
     <fast xmlns='urn:xmpp:fast:0'><mechanism>HT-SHA-256-NONE</mechanism></fast></inline></authentication>\
     <register xmlns='http://jabber.org/features/iq-register'/>\
     <limits xmlns='urn:xmpp:stream-limits:0'><max-bytes>10000</max-bytes><idle-seconds>60</idle-seconds></limits>\
     </stream:features>";

const AFTER_BIND: &str = "<stream:features>\
     <ver xmlns='urn:xmpp:features:rosterver'/><sub xmlns='urn:xmpp:features:pre-approval'/>\
     <c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='n' ver='v'/>\
     <limits xmlns='urn:xmpp:stream-limits:0'><max-bytes>262144</max-bytes><idle-seconds>1800</idle-seconds></limits>\
     </stream:features>";

/// Plays a dialogue from the features on; `{plain …}` stands for an authentication by PLAIN that
/// asks for that.
fn dialogue(transcript: &str) {
    let mut text = format!("C: {{open}}\nS: {{opened 1}}{FEATURES}\n{transcript}").replace("{after bind}", AFTER_BIND);
    while let Some((before, rest)) = text.split_once("{plain") {
        let (inner, after) = rest.split_once('}').unwrap();
        text = format!(
            "{before}<authenticate xmlns='urn:xmpp:sasl:2' mechanism='PLAIN'><initial-response>AGp1bGlldABwZW5jaWw=\
             </initial-response>{inner}</authenticate>{after}"
        );
    }
    play(with_sasl2, secure(), &text);
}

/// §2.6.1 and the first example of §6: no stream restart, features at once.
#[test]
fn without_anything_else_binding_follows() {
    dialogue(
        "C: {plain}
         E: Verify { account: juliet@example.org, .. }
         A: right
         E: Authenticated { account: juliet@example.org }
         S: <success xmlns='urn:xmpp:sasl:2'><authorization-identifier>juliet@example.org</authorization-identifier></success>
         S: {bind features}
         C: <iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>
         E: Bind { resource: None }
         A: bound juliet@example.org/x
         S: <iq type='result' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>juliet@example.org/x</jid></bind></iq>",
    );
}

/// XEP-0386 §3.2.
#[test]
fn a_resource_is_bound_along() {
    dialogue(
        "C: {plain<user-agent id='d4565fa7-4d72-4749-b3d3-740edbf87770'><software>AwesomeXMPP</software></user-agent><bind xmlns='urn:xmpp:bind:0'><tag>Awesome</tag></bind>}
         E: Verify { account: juliet@example.org, .. }
         A: right
         E: Authenticated { account: juliet@example.org }
         E: BindInline { resource: Awesome/5c9aa75e7ec496f0 }
         A: inline juliet@example.org/Awesome/5c9aa75e7ec496f0
         S: <success xmlns='urn:xmpp:sasl:2'><authorization-identifier>juliet@example.org/Awesome/5c9aa75e7ec496f0</authorization-identifier>
         S: <bound xmlns='urn:xmpp:bind:0'/></success>{after bind}",
    );
}

/// XEP-0198 §9.1: the result of a feature is in `<bound/>`.
#[test]
fn features_come_along() {
    dialogue(
        "C: {plain<bind xmlns='urn:xmpp:bind:0'><enable xmlns='urn:xmpp:sm:3' resume='true'/></bind>}
         E: Verify { account: juliet@example.org, .. }
         A: right
         E: Authenticated { account: juliet@example.org }
         E: BindInline { resource: 0000000000000002 }
         A: inline juliet@example.org/x
         S: <success xmlns='urn:xmpp:sasl:2'><authorization-identifier>juliet@example.org/x</authorization-identifier>
         S: <bound xmlns='urn:xmpp:bind:0'><enabled xmlns='urn:xmpp:sm:3' id='i'/></bound></success>{after bind}",
    );
}

/// XEP-0198 §9.2: the session goes on, the request to bind is ignored, no features follow.
#[test]
fn a_session_is_resumed_along() {
    dialogue(
        "C: {plain<bind xmlns='urn:xmpp:bind:0'/><resume xmlns='urn:xmpp:sm:3' previd='p' h='3'/>}
         E: Verify { account: juliet@example.org, .. }
         A: right
         E: Authenticated { account: juliet@example.org }
         E: Resume { previd: p, h: 3 }
         A: resumed 5
         S: <success xmlns='urn:xmpp:sasl:2'><authorization-identifier>juliet@example.org/balcony</authorization-identifier>
         S: <resumed xmlns='urn:xmpp:sm:3' previd='p' h='5'/></success>",
    );
}

/// XEP-0198 §9.2.1: else the resource is bound.
#[test]
fn without_the_session_the_resource_is_bound() {
    dialogue(
        "C: {plain<bind xmlns='urn:xmpp:bind:0'/><resume xmlns='urn:xmpp:sm:3' previd='p' h='3'/>}
         E: Verify { account: juliet@example.org, .. }
         A: right
         E: Authenticated { account: juliet@example.org }
         E: Resume { previd: p, h: 3 }
         A: unknown 7
         E: BindInline { resource: 0000000000000002 }
         A: inline juliet@example.org/x
         S: <success xmlns='urn:xmpp:sasl:2'><authorization-identifier>juliet@example.org/x</authorization-identifier>
         S: <failed xmlns='urn:xmpp:sm:3' h='7'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>
         S: <bound xmlns='urn:xmpp:bind:0'/></success>{after bind}",
    );
}

/// The client is logged in even if no resource is left, or if its request means nothing.
#[test]
fn what_fails_along_does_not_undo_the_login() {
    dialogue(
        "C: {plain<resume xmlns='urn:xmpp:sm:3' h='3'/><bind xmlns='urn:xmpp:bind:0'/>}
         E: Verify { account: juliet@example.org, .. }
         A: right
         E: Authenticated { account: juliet@example.org }
         E: BindInline { resource: 0000000000000002 }
         A: inline @refused
         S: <success xmlns='urn:xmpp:sasl:2'><authorization-identifier>juliet@example.org</authorization-identifier>
         S: <failed xmlns='urn:xmpp:sm:3'><bad-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed></success>
         S: {bind features}",
    );
}

/// §2.6.2: nothing is done for a client that did not log in, and it may try again.
#[test]
fn failures_do_nothing_else() {
    dialogue(
        "C: {plain<bind xmlns='urn:xmpp:bind:0'/>}
         E: Verify { account: juliet@example.org, .. }
         A: wrong
         S: <failure xmlns='urn:xmpp:sasl:2'><not-authorized xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/></failure>
         E: Failed { account: Some(juliet@example.org), failure: NotAuthorized }
         C: <authenticate xmlns='urn:xmpp:sasl:2' mechanism='SCRAM-SHA-1'/>
         S: <challenge xmlns='urn:xmpp:sasl:2'/>
         C: <abort xmlns='urn:xmpp:sasl:2'/>
         S: <failure xmlns='urn:xmpp:sasl:2'><aborted xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/></failure>
         E: Failed { account: None, failure: Aborted }
         C: <authenticate xmlns='urn:xmpp:sasl:2' mechanism='X'/>
         S: <failure xmlns='urn:xmpp:sasl:2'><invalid-mechanism xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/></failure>
         E: Failed { account: None, failure: InvalidMechanism }
         C: <authenticate xmlns='urn:xmpp:sasl:2' mechanism='PLAIN'><initial-response>=</initial-response></authenticate>
         S: <failure xmlns='urn:xmpp:sasl:2'><incorrect-encoding xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/></failure>
         E: Failed { account: None, failure: IncorrectEncoding }
         C: {plain}
         E: Verify { account: juliet@example.org, .. }
         A: right
         E: Authenticated { account: juliet@example.org }
         S: <success xmlns='urn:xmpp:sasl:2'><authorization-identifier>juliet@example.org</authorization-identifier></success>
         S: {bind features}
         C: {plain}
         S: {error policy-violation The stream is authenticated already.}
         E: End",
    );
}

/// §2.4: no other element is allowed while an authentication is under way, not even another one.
#[test]
fn authentications_do_not_mix() {
    for other in [
        "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'/>",
        "<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>",
    ] {
        dialogue(&format!(
            "C: <authenticate xmlns='urn:xmpp:sasl:2' mechanism='SCRAM-SHA-1'/>
             S: <challenge xmlns='urn:xmpp:sasl:2'/>
             C: {other}
             S: {{error policy-violation Another authentication is in progress.}}
             E: End"
        ));
    }
    dialogue(
        "C: <auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='SCRAM-SHA-1'/>
         S: <challenge xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>
         C: <response xmlns='urn:xmpp:sasl:2'/>
         S: {error policy-violation Not allowed during authentication.}
         E: End",
    );
}

/// §4.3: a client that claims an address in the stream header must log in as that one.
#[test]
fn the_header_names_the_one_who_logs_in() {
    let mut player = DialoguePlayer::new(machine(with_sasl2(), secure()));
    player.receive(OPEN.replace("to='", "from='romeo@example.org' to='").as_bytes());
    player.take_sent();
    player.receive(
        b"<authenticate xmlns='urn:xmpp:sasl:2' mechanism='PLAIN'><initial-response>AGp1bGlldABwZW5jaWw=</initial-response></authenticate>",
    );
    player.event();
    player.answer("right");
    assert_eq!(
        player.take_sent(),
        "<failure xmlns='urn:xmpp:sasl:2'><invalid-authzid xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/></failure>"
    );
}

/// If XEP-0388 is switched off, its elements are unknown.
#[test]
fn without_it_its_elements_are_unknown() {
    play(
        policy,
        secure(),
        "C: {open}<authenticate xmlns='urn:xmpp:sasl:2' mechanism='PLAIN'/>
         S: {opened 1}{login features}{error unsupported-stanza-type}
         E: End",
    );
}

/// XEP-0484 §3.4 and §3.5: one message in, the server's proof and a newer token out.
#[test]
fn a_token_logs_in() {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let key = rookery_sasl::TokenKey::of("token");
    let initial = STANDARD.encode([b"juliet\0".as_slice(), &key.initiator(b"")].concat());
    let answer = STANDARD.encode(key.responder(b""));
    dialogue(&format!(
        "C: <authenticate xmlns='urn:xmpp:sasl:2' mechanism='HT-SHA-256-NONE'><initial-response>{initial}</initial-response><user-agent id='a'/><fast xmlns='urn:xmpp:fast:0'/></authenticate>
         E: Tokens {{ account: juliet@example.org, client: a }}
         A: tokens
         E: Authenticated {{ account: juliet@example.org }}
         E: Token {{ account: juliet@example.org, client: a, used: Some(New), invalidate: false, issue: None }}
         A: token newer
         S: <success xmlns='urn:xmpp:sasl:2'><additional-data>{answer}</additional-data>
         S: <authorization-identifier>juliet@example.org</authorization-identifier>
         S: <token xmlns='urn:xmpp:fast:0' token='newer' expiry='2026-01-01T00:00:00Z'/></success>{{bind features}}"
    ));
    let wrong = STANDARD.encode(b"juliet\0wrong");
    dialogue(&format!(
        "C: <authenticate xmlns='urn:xmpp:sasl:2' mechanism='HT-SHA-256-NONE'><initial-response>{wrong}</initial-response><user-agent id='a'/></authenticate>
         E: Tokens {{ account: juliet@example.org, client: a }}
         A: tokens
         S: <failure xmlns='urn:xmpp:sasl:2'><not-authorized xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/></failure>
         E: Failed {{ account: Some(juliet@example.org), failure: NotAuthorized }}
         C: <authenticate xmlns='urn:xmpp:sasl:2' mechanism='HT-SHA-256-EXPR'><initial-response>{wrong}</initial-response><user-agent id='a'/></authenticate>
         S: <failure xmlns='urn:xmpp:sasl:2'><invalid-mechanism xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/></failure>
         E: Failed {{ account: None, failure: InvalidMechanism }}"
    ));
}
