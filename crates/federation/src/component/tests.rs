use super::*;
use crate::settings::{ComponentSecret, ComponentTerms as Named};

struct NothingShown;

impl Ours for NothingShown {
    fn is_ours(&self, _: &str) -> bool {
        false
    }
}

/// Plays a stream of the component `bridge.example` with the secret `secret`, cut at a place;
/// returns the machine and the server's output.
fn play(cut: usize, made: impl FnOnce(&str) -> String) -> (ComponentStream, Vec<String>, String) {
    let mut settings = FederationSettings::new(crate::Secret::new(b"x"));
    let secret = ComponentSecret::new(b"secret");
    settings.components = vec![Named { name: "bridge.example".into(), secret }];
    let mut machine = ComponentStream::new(Arc::new(settings));
    let (mut scanner, mut out, mut events) = (Scanner::new(), Vec::new(), Vec::new());
    let header = "<stream:stream xmlns='jabber:component:accept' xmlns:stream='http://etherx.jabber.org/streams' \
                  to='bridge.example'>";
    machine.read(header.as_bytes(), &mut scanner, &NothingShown, &mut out);
    let digest = hex::encode(Sha1::digest(format!("{}secret", machine.id)));
    let input = made(&digest);
    let mut waiting = Vec::new();
    let (one, other) = input.as_bytes().split_at(cut.min(input.len()));
    for part in [one, other] {
        waiting.extend_from_slice(part);
        loop {
            let read = machine.read(&waiting, &mut scanner, &NothingShown, &mut out);
            waiting.drain(..read.consumed);
            match read.event {
                None => break,
                Some(ComponentEvent::Proven) => {
                    events.push("proven".to_owned());
                    machine.attached(&mut out);
                }
                Some(event) => events.push(format!("{event:?}").split(['(', ' ']).next().unwrap_or_default().into()),
            }
        }
    }
    (machine, events, String::from_utf8(out).expect("UTF-8"))
}

#[test]
fn a_stream_means_the_same_wherever_it_is_cut() {
    let input = |digest: &str| {
        format!("<handshake>{digest}</handshake> <presence from='bridge.example' to='a@b.example'/></stream:stream>")
    };
    for cut in 0..160 {
        let (machine, events, out) = play(cut, input);
        assert_eq!(events, ["proven", "Stanza", "End"], "cut at {cut}");
        assert!(out.contains("<handshake/>") && out.ends_with("</stream:stream>"), "{out}");
        assert!(machine.has_ended() && machine.name() == "bridge.example");
    }
}

#[test]
fn nothing_large_is_read_before_the_handshake() {
    let (machine, events, out) = play(0, |_| format!("<handshake>{}", "a".repeat(20_000)));
    assert_eq!(events, ["End"]);
    assert!(machine.has_ended() && out.contains("policy-violation"), "{out}");
}

#[test]
fn a_wrong_secret_is_told_to_the_operator() {
    let (_, events, out) = play(0, |digest| format!("<handshake>{}</handshake>", digest.replace(['0', '1', '2'], "f")));
    assert_eq!(events, ["Wrong"]);
    assert!(out.contains("not-authorized"), "{out}");
}
