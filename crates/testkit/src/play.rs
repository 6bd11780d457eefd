//! Dialogues as text: what clients send, and what they must receive.
//!
//! ```text
//! # comments, and empty lines
//! juliet C: <presence type='subscribe' to='romeo@example.org'/>
//! romeo  S: <presence type='subscribe' from='juliet@example.org'/>
//! romeo  S:
//! ```
//!
//! A line begins with the name of a client (which may be left out if there is only one) and says
//! whether the client (`C:`) or the server (`S:`) speaks; lines without such a beginning continue
//! the previous one. The server's lines are [patterns](crate::pattern); an empty `S:` is silence.
//! After the last line no client may have received anything else.

use crate::client::Client;
use crate::pattern;
use crate::wire::Item;

/// Plays a dialogue.
///
/// # Panics
/// If the server deviates from it; the text says where.
pub fn play(clients: &mut [&mut Client], dialogue: &str) {
    for line in lines(dialogue) {
        let at = match line.name {
            "" if clients.len() == 1 => Some(0),
            name => clients.iter().position(|client| client.name == name),
        };
        let at = at.unwrap_or_else(|| panic!("there is no client '{}'", line.name));
        let client = &mut *clients[at];
        match line.speaker {
            PlaySpeaker::Client => client.send(&line.text),
            PlaySpeaker::Server => hear(client, &line.text),
        }
    }
    for client in clients {
        client.expect_nothing();
    }
}

fn hear(client: &mut Client, text: &str) {
    if text.is_empty() {
        return client.expect_nothing();
    }
    let (elements, ends) = match text.strip_suffix("</stream:stream>") {
        Some(elements) => (elements, true),
        None => (text, false),
    };
    for wanted in pattern::elements(elements) {
        let found = match client.take() {
            Some(Item::Element(element)) => element,
            other => client.fail(&format!("expected {text}\n  but got {other:?}")),
        };
        if let Err(difference) = pattern::matches(&wanted, &found) {
            client.fail(&format!("expected {text}\n  but got  {}\n  {difference}", crate::client::xml(&found)));
        }
    }
    if ends {
        client.expect_end();
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlaySpeaker {
    Client,
    Server,
}

#[derive(Debug, PartialEq, Eq)]
struct PlayLine<'a> {
    name: &'a str,
    speaker: PlaySpeaker,
    text: String,
}

fn lines(dialogue: &str) -> Vec<PlayLine<'_>> {
    let mut lines: Vec<PlayLine<'_>> = Vec::new();
    for line in dialogue.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match (begins(line), lines.last_mut()) {
            (Some(line), _) => lines.push(line),
            (None, Some(last)) => last.text.push_str(line),
            (None, None) => panic!("a dialogue begins with the name of a speaker: {line}"),
        }
    }
    lines
}

fn begins(line: &str) -> Option<PlayLine<'_>> {
    let (head, text) = line.split_once(':')?;
    let (name, speaker) = head.rsplit_once(' ').unwrap_or(("", head));
    let speaker = match speaker {
        "C" => PlaySpeaker::Client,
        "S" => PlaySpeaker::Server,
        _ => return None,
    };
    let name = name.trim();
    let is_name = name.chars().all(|letter| letter.is_alphanumeric() || "-_@./".contains(letter));
    is_name.then(|| PlayLine { name, speaker, text: text.trim().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_who_speaks() {
        let found = lines("# x\n juliet C: <a>\n  b: c</a>\n\n S:\n romeo  S: <d/>");
        let line = |name, speaker, text: &str| PlayLine { name, speaker, text: text.into() };
        let (client, server) = (PlaySpeaker::Client, PlaySpeaker::Server);
        assert_eq!(found, [line("juliet", client, "<a>b: c</a>"), line("", server, ""), line("romeo", server, "<d/>")]);
    }
}
