//! Stream headers: RFC 6120 §4.2, §4.7, §4.8, and the errors of §4.9.3 that a header can earn.

use rookery_stream::c2s::Policy;

use crate::dialogue::{machine, play, policy, secure, server_header};

fn one_host() -> Policy {
    let mut policy = policy();
    policy.hosts.truncate(1);
    policy
}

/// Plays a header that the server answers with its own and an error.
fn expect_refusal(header: &str, error: &str) {
    let transcript = format!(
        "C: {header}
         S: {{opened 1}}
         S: {{error {error}}}
         E: End"
    );
    play(policy, secure(), &transcript);
}

#[test]
fn a_header_is_answered_with_a_header_and_features() {
    play(
        policy,
        secure(),
        "C: {open}
         S: {opened 1}
         S: {login features}",
    );
}

#[test]
fn the_declaration_is_optional_and_whitespace_may_precede_the_header() {
    play(
        policy,
        secure(),
        "C: {nl} {nl}<stream:stream to='example.org' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>{nl}
         S: {opened 1}
         S: {login features}",
    );
}

#[test]
fn every_host_is_served_under_its_name() {
    let transcript = format!(
        "C: <stream:stream to='EXAMPLE.net' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>
         S: {}
         S: <stream:features><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'><required/></starttls>
         S: <limits xmlns='urn:xmpp:stream-limits:0'><max-bytes>10000</max-bytes><idle-seconds>60</idle-seconds></limits>
         S: </stream:features>",
        server_header(1, "example.net")
    );
    play(policy, crate::dialogue::in_the_clear(), &transcript);
}

#[test]
fn a_client_that_says_from_is_answered_with_to() {
    play(
        policy,
        secure(),
        "C: <stream:stream from='Juliet@example.org/balcony' to='example.org' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>
         S: <?xml version='1.0'?><stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' id='00000000000000000000000000000001' from='example.org' to='juliet@example.org' xml:lang='en' version='1.0'>
         S: {login features}",
    );
}

#[test]
fn a_newer_version_is_answered_with_ours() {
    play(
        policy,
        secure(),
        "C: <stream:stream to='example.org' version='2.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>
         S: {opened 1}
         S: {login features}",
    );
}

#[test]
fn an_old_or_senseless_version_is_unsupported() {
    for version in ["", "version='0.9'", "version='1'", "version='a.b'", "version=''", "version='-1.0'"] {
        expect_refusal(
            &format!(
                "<stream:stream to='example.org' {version} xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>"
            ),
            "unsupported-version Version 1.0 or later is needed.",
        );
    }
}

#[test]
fn an_unknown_host_is_refused() {
    for host in ["example.com", "juliet@example.org", "example.org/balcony"] {
        expect_refusal(
            &format!(
                "<stream:stream to='{host}' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>"
            ),
            "host-unknown That host is not served here.",
        );
    }
}

#[test]
fn addresses_have_to_be_addresses() {
    expect_refusal(
        "<stream:stream to='' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>",
        "improper-addressing The 'to' is not an address.",
    );
    expect_refusal(
        "<stream:stream from='@' to='example.org' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>",
        "improper-addressing The 'from' is not an address.",
    );
}

#[test]
fn without_to_the_only_host_is_meant() {
    let header = "<stream:stream version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>";
    expect_refusal(header, "improper-addressing A 'to' is needed.");
    let transcript = format!("C: {header}\nS: {{opened 1}}\nS: {{login features}}");
    play(one_host, secure(), &transcript);
}

#[test]
fn namespaces_have_to_be_the_clients() {
    expect_refusal(
        "<stream:stream to='example.org' version='1.0' xmlns='jabber:server' xmlns:stream='http://etherx.jabber.org/streams'>",
        "invalid-namespace The content namespace has to be jabber:client.",
    );
    expect_refusal(
        "<stream:stream to='example.org' version='1.0' xmlns:stream='http://etherx.jabber.org/streams'>",
        "invalid-namespace The content namespace has to be jabber:client.",
    );
    expect_refusal(
        "<stream:stream to='example.org' version='1.0' xmlns='jabber:client' xmlns:stream='http://example.org/streams'>",
        "invalid-namespace The stream is not in the streams namespace.",
    );
}

#[test]
fn the_prefix_has_to_be_declared() {
    expect_refusal(
        "<stream:stream to='example.org' version='1.0' xmlns='jabber:client'>",
        "bad-namespace-prefix A namespace prefix is not declared.",
    );
}

#[test]
fn the_encoding_has_to_be_utf_8() {
    expect_refusal("<?xml version='1.0' encoding='ISO-8859-1'?>", "unsupported-encoding The encoding has to be UTF-8.");
}

#[test]
fn another_protocol_hears_of_it_behind_our_header() {
    let http = "GET / HTTP/1.1{nl}Host: example.org{nl}{nl}";
    expect_refusal(http, "not-well-formed The XML is not well-formed.");
}

#[test]
fn a_second_header_on_an_open_stream_is_refused() {
    play(
        policy,
        secure(),
        "C: {open}
         S: {opened 1}
         S: {login features}
         C: <stream:stream to='example.org' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>
         S: {error bad-format The stream is open already.}
         E: End",
    );
}

#[test]
fn a_client_that_closes_is_closed() {
    play(
        policy,
        secure(),
        "C: {open} {nl} </stream:stream>
         S: {opened 1}
         S: {login features}
         S: </stream:stream>
         E: End
         C: <iq type='get' id='1'/>",
    );
}

#[test]
fn a_client_that_reports_an_error_is_closed() {
    play(
        policy,
        secure(),
        "C: {open}<stream:error><not-well-formed xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error></stream:stream>
         S: {opened 1}
         S: {login features}
         S: </stream:stream>
         E: End",
    );
}

#[test]
fn elements_that_nobody_knows_are_unsupported() {
    for element in ["<hello/>", "<enable xmlns='urn:example'/>", "<stream:features/>"] {
        let transcript = format!(
            "C: {{open}}{element}
             S: {{opened 1}}
             S: {{login features}}
             S: {{error unsupported-stanza-type}}
             E: End"
        );
        play(policy, secure(), &transcript);
    }
}

#[test]
fn malformed_elements_are_named() {
    for (element, error) in [
        ("<a></b>", "not-well-formed The XML is not well-formed."),
        ("<!-- -->", "restricted-xml Comments, processing instructions, DTDs and custom entities are not allowed."),
        ("<b:a/>", "bad-namespace-prefix A namespace prefix is not declared."),
        (
            "<?xml version='1.0'?>",
            "restricted-xml Comments, processing instructions, DTDs and custom entities are not allowed.",
        ),
    ] {
        let transcript = format!(
            "C: {{open}}{element}
             S: {{opened 1}}
             S: {{login features}}
             S: {{error {error}}}
             E: End"
        );
        play(policy, secure(), &transcript);
    }
}

#[test]
fn a_timeout_is_a_stream_error_behind_our_header() {
    play(
        policy,
        secure(),
        "C: <stream:stream
         A: timeout
         S: {opened 1}
         S: {error connection-timeout}
         E: End
         A: timeout",
    );
}

#[test]
fn a_machine_without_hosts_answers_all_the_same() {
    let mut machine = machine(Policy { hosts: Vec::new(), ..policy() }, secure());
    let mut out = Vec::new();
    machine.read(crate::dialogue::OPEN.as_bytes(), &mut out);
    assert!(String::from_utf8(out).unwrap().contains("<host-unknown "));
}
