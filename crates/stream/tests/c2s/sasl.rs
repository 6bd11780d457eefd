//! SASL: RFC 6120 §6. PLAIN carries the transcripts because its messages are always the same;
//! `scram` has the rest.

use rookery_sasl::Mechanism;
use rookery_stream::c2s::{Facts, Policy};

use crate::dialogue::{bindings, in_the_clear, play, policy, secure};

/// Plays client elements on a fresh stream.
pub(crate) fn after_open(transcript: &str) {
    play(policy, secure(), &format!("C: {{open}}\nS: {{opened 1}}\nS: {{login features}}\n{transcript}"));
}

#[test]
fn success_restarts_the_stream() {
    after_open(
        "C: <auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGp1bGlldABwZW5jaWw=</auth>
         E: Verify { account: juliet@example.org, .. }
         A: right
         S: <success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>
         E: Authenticated { account: juliet@example.org }
         C: {open}
         S: {opened 2}
         S: {bind features}
         E: BegunAgain",
    );
}

#[test]
fn the_initial_response_may_come_later() {
    after_open(
        "C: <auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'/>
         S: <challenge xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>
         C: <response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>AGp1bGlldABwZW5jaWw=</response>
         E: Verify { account: juliet@example.org, .. }
         A: right
         S: <success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>
         E: Authenticated { account: juliet@example.org }",
    );
}

#[test]
fn an_equals_sign_is_an_empty_initial_response() {
    after_open(
        "C: <auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>=</auth>
         S: <failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><malformed-request/></failure>
         E: Failed { account: None, failure: MalformedRequest }",
    );
}

#[test]
fn a_wrong_password_may_be_corrected() {
    after_open(
        "C: <auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGp1bGlldABwZW5jaWw=</auth>
         E: Verify { account: juliet@example.org, .. }
         A: wrong
         S: <failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><not-authorized/></failure>
         E: Failed { account: Some(juliet@example.org), failure: NotAuthorized }
         C: <auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGp1bGlldABwZW5jaWw=</auth>
         E: Verify { account: juliet@example.org, .. }
         A: right
         S: <success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>
         E: Authenticated { account: juliet@example.org }",
    );
}

#[test]
fn a_failing_store_is_a_temporary_failure() {
    after_open(
        "C: <auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGp1bGlldABwZW5jaWw=</auth>
         E: Verify { account: juliet@example.org, .. }
         A: store failed
         S: <failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><temporary-auth-failure/></failure>
         E: Failed { account: Some(juliet@example.org), failure: TemporaryAuthFailure }",
    );
}

#[test]
fn the_fifth_failure_ends_the_stream() {
    let abort = "<abort xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>";
    let aborted = "S: <failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><aborted/></failure>\n";
    let failed = "E: Failed { account: None, failure: Aborted }\n";
    after_open(&format!(
        "C: {}\n{}S: {{error policy-violation Too many authentications failed.}}\n{}E: End",
        abort.repeat(6),
        aborted.repeat(5),
        failed.repeat(5)
    ));
}

#[test]
fn an_exchange_may_be_aborted() {
    after_open(
        "C: <auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'/>
         S: <challenge xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>
         C: <abort xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>
         S: <failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><aborted/></failure>
         E: Failed { account: None, failure: Aborted }
         C: <response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>AGp1bGlldABwZW5jaWw=</response>
         S: <failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><malformed-request/></failure>
         E: Failed { account: None, failure: MalformedRequest }",
    );
}

#[test]
fn base64_has_to_be_exact() {
    // A line feed, missing padding, surplus bits, another alphabet, text before the padding's end.
    for text in ["AGp1bGlldABw{nl}ZW5jaWw=", "AGp1bGlldABwZW5jaWw", "AB==", "_-==", "A=A=", "===", " "] {
        after_open(&format!(
            "C: <auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{text}</auth>
             S: <failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><incorrect-encoding/></failure>
             E: Failed {{ account: None, failure: IncorrectEncoding }}"
        ));
    }
}

#[test]
fn mechanisms_that_are_not_offered_are_invalid() {
    for mechanism in ["X", "", "plain", "SCRAM-SHA-1-PLUS", "EXTERNAL"] {
        after_open(&format!(
            "C: <auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='{mechanism}'>=</auth>
             S: <failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><invalid-mechanism/></failure>
             E: Failed {{ account: None, failure: InvalidMechanism }}"
        ));
    }
}

#[test]
fn plain_needs_tls_even_where_login_does_not() {
    let facts = Facts { plaintext_login_allowed: true, tls_available: false, ..in_the_clear() };
    let scram_only = "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>\
        <mechanism>SCRAM-SHA-1</mechanism></mechanisms>\
        <register xmlns='http://jabber.org/features/iq-register'/>\
        <limits xmlns='urn:xmpp:stream-limits:0'><max-bytes>10000</max-bytes></limits></stream:features>";
    let with = |mechanisms: &[Mechanism]| Policy { mechanisms: mechanisms.to_vec(), idle_before: None, ..policy() };
    let attempt = |condition: &str, failure: &str| {
        format!(
            "C: {{open}}<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGp1bGlldABwZW5jaWw=</auth>
             S: {{opened 1}}
             S: {scram_only}
             S: <failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><{condition}/></failure>
             E: Failed {{ account: None, failure: {failure} }}"
        )
    };
    play(
        || with(&[Mechanism::Plain, Mechanism::ScramSha1]),
        facts.clone(),
        &attempt("encryption-required", "EncryptionRequired"),
    );
    play(|| with(&[Mechanism::ScramSha1]), facts, &attempt("invalid-mechanism", "InvalidMechanism"));
}

#[test]
fn plain_without_tls_is_the_operators_choice() {
    let facts = Facts { plaintext_login_allowed: true, ..Facts::default() };
    play(
        || Policy { plain_without_tls: true, ..policy() },
        facts,
        "C: {open}<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGp1bGlldABwZW5jaWw=</auth>
         S: {opened 1}
         S: {login features}
         E: Verify { account: juliet@example.org, .. }
         A: right
         S: <success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>
         E: Authenticated { account: juliet@example.org }",
    );
}

#[test]
fn channel_bindings_are_announced_with_the_mechanisms_that_use_them() {
    play(
        policy,
        Facts { bindings: bindings(), ..secure() },
        "C: {open}
         S: {opened 1}
         S: <stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>
         S: <mechanism>SCRAM-SHA-512-PLUS</mechanism><mechanism>SCRAM-SHA-256-PLUS</mechanism>
         S: <mechanism>SCRAM-SHA-1-PLUS</mechanism><mechanism>SCRAM-SHA-512</mechanism>
         S: <mechanism>SCRAM-SHA-256</mechanism><mechanism>SCRAM-SHA-1</mechanism><mechanism>PLAIN</mechanism></mechanisms>
         S: <sasl-channel-binding xmlns='urn:xmpp:sasl-cb:0'><channel-binding type='tls-exporter'/>
         S: <channel-binding type='tls-server-end-point'/></sasl-channel-binding>
         S: <register xmlns='http://jabber.org/features/iq-register'/>
         S: <limits xmlns='urn:xmpp:stream-limits:0'><max-bytes>10000</max-bytes><idle-seconds>60</idle-seconds></limits>
         S: </stream:features>",
    );
}

#[test]
fn nothing_but_sasl_belongs_into_an_exchange() {
    after_open(
        "C: <auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'/>
         S: <challenge xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>
         C: <auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGp1bGlldABwZW5jaWw=</auth>
         S: <failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><malformed-request/></failure>
         E: Failed { account: None, failure: MalformedRequest }
         C: <auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'/>
         S: <challenge xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>
         C: <iq type='get' id='1'><query xmlns='jabber:iq:register'/></iq>
         S: {error not-authorized}
         E: End",
    );
}

#[test]
fn sasl_elements_that_nobody_knows_are_unsupported() {
    after_open(
        "C: <success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>
         S: {error unsupported-stanza-type}
         E: End",
    );
}

#[test]
fn stanzas_before_login_are_not_authorized() {
    for stanza in [
        "<message to='romeo@example.org'><body>hi</body></message>",
        "<presence/>",
        "<iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>",
        "<iq type='get' id='1'/>",
    ] {
        after_open(&format!("C: {stanza}\nS: {{error not-authorized}}\nE: End"));
    }
    after_open("C: <message xmlns='jabber:server'/>\nS: {error invalid-namespace}\nE: End");
}

#[test]
fn names_that_no_account_can_have_are_not_asked_for() {
    // "\0jul iet\0pencil"
    after_open(
        "C: <auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGp1bCBpZXQAcGVuY2ls</auth>
         S: <failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><not-authorized/></failure>
         E: Failed { account: None, failure: NotAuthorized }",
    );
}

#[test]
fn nobody_acts_as_somebody_else() {
    // "romeo@example.org\0juliet\0pencil", then "juliet@example.org\0juliet\0pencil"
    after_open(
        "C: <auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>cm9tZW9AZXhhbXBsZS5vcmcAanVsaWV0AHBlbmNpbA==</auth>
         S: <failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><invalid-authzid/></failure>
         E: Failed { account: None, failure: InvalidAuthzid }
         C: <auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>anVsaWV0QGV4YW1wbGUub3JnAGp1bGlldABwZW5jaWw=</auth>
         E: Verify { account: juliet@example.org, .. }
         A: right
         S: <success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>
         E: Authenticated { account: juliet@example.org }",
    );
}

#[test]
fn nobody_logs_in_twice() {
    after_open(
        "C: <auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGp1bGlldABwZW5jaWw=</auth>
         E: Verify { account: juliet@example.org, .. }
         A: right
         S: <success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>
         E: Authenticated { account: juliet@example.org }
         C: {open}
         S: {opened 2}
         S: {bind features}
         E: BegunAgain
         C: <auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGp1bGlldABwZW5jaWw=</auth>
         S: {error policy-violation The stream is authenticated already.}
         E: End",
    );
}

#[test]
fn an_answer_that_comes_after_the_end_is_ignored() {
    after_open(
        "C: <auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGp1bGlldABwZW5jaWw=</auth>
         E: Verify { account: juliet@example.org, .. }
         A: timeout
         S: {error connection-timeout}
         E: End
         A: right",
    );
}
