//! In-band registration on a stream that isn't authenticated: XEP-0077.

use crate::dialogue::{in_the_clear, play, policy, secure};

#[test]
fn registration_is_the_owners_business() {
    play(
        policy,
        secure(),
        "C: {open}<iq type='get' id='1' to='example.org'><query xmlns='jabber:iq:register'/></iq>
         S: {opened 1}
         S: {login features}
         E: BeforeLogin { .. }
         A: reply <iq type='result' id='1'/>
         S: <iq type='result' id='1'/>
         C: <iq type='set' id='2'><query xmlns='jabber:iq:register'><username>nurse</username></query></iq>
         E: BeforeLogin { .. }
         A: reply <iq type='error' id='2'/>
         S: <iq type='error' id='2'/>
         C: <auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGp1bGlldABwZW5jaWw=</auth>
         E: Verify { account: juliet@example.org, .. }
         A: right
         S: <success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>
         E: Authenticated { account: juliet@example.org }",
    );
}

#[test]
fn the_owner_gets_the_stanza() {
    use rookery_stream::c2s::C2sEvent;
    let stanza = "<iq type='get' id='1'><query xmlns='jabber:iq:register'/></iq>";
    let mut player = crate::dialogue::DialoguePlayer::new(crate::dialogue::machine(policy(), secure()));
    player.receive(crate::dialogue::OPEN.as_bytes());
    player.receive(stanza.as_bytes());
    assert_eq!(player.event(), Some(C2sEvent::BeforeLogin { stanza: stanza.as_bytes().to_vec() }));
}

#[test]
fn where_it_is_off_it_is_a_stanza_like_any_other() {
    let without = || {
        let mut policy = policy();
        policy.hosts[0].registration = false;
        policy
    };
    play(
        without,
        secure(),
        "C: {open}<iq type='get' id='1'><query xmlns='jabber:iq:register'/></iq>
         S: {opened 1}
         S: {login features}
         S: {error not-authorized}
         E: End",
    );
}

#[test]
fn passwords_are_not_taken_in_the_clear() {
    play(
        policy,
        in_the_clear(),
        "C: {open}<iq type='get' id='1'><query xmlns='jabber:iq:register'/></iq>
         S: {opened 1}
         S: {tls features}
         S: {error not-authorized}
         E: End",
    );
}
