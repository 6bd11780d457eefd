//! The file in which a server that stops leaves its sessions for the next start.
//!
//! It is a file rather than rows of the store: the store may be shared by other servers, or be
//! away at the moment of the stop, and what is in the file means nothing to anybody but the next
//! process at this place. It belongs to the server's user alone, is written as a whole or not at
//! all, and is read once: it is removed before anybody is served, so that no session goes on twice.
//! A server that dies leaves none.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rookery_hub::Card;
use rookery_shard::handover::MOST_BYTES;
use sha2::{Digest, Sha256};
use tracing::{info, warn};

use crate::folder::Folder;

/// Writes the cards. A folder that takes nothing more costs clients no more than a new login, so
/// that is no failure.
pub fn keep(folder: &Folder, cards: &[Vec<u8>]) {
    let path = folder.sessions();
    if cards.is_empty() {
        return;
    }
    match write(&path, cards) {
        Ok(()) => info!(cards = cards.len(), file = %path.display(), "sessions are kept for the next start"),
        Err(error) => {
            let file = path.display();
            warn!(%file, %error, "sessions can't be kept; clients log in again, and find their messages in the archive");
        }
    }
}

/// Reads the cards that the last process has left, and removes them.
pub fn take(folder: &Folder) -> Vec<Card> {
    let path = folder.sessions();
    let bytes = match read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            warn!(file = %path.display(), %error, "the sessions of the last process can't be read and end");
            return Vec::new();
        }
    };
    if let Err(error) = fs::remove_file(&path) {
        // They would go on again at every start.
        warn!(file = %path.display(), %error, "the sessions of the last process end, since their file can't be removed");
        return Vec::new();
    }
    let cards = decode(&bytes);
    info!(cards = cards.len(), "sessions of the last process go on");
    cards
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = MOST_BYTES as u64 * 2;
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes the file under another name first: what has the right name is whole.
fn write(path: &Path, cards: &[Vec<u8>]) -> io::Result<()> {
    let unfinished = path.with_extension("new");
    let _ = fs::remove_file(&unfinished);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    let written = file.write_all(&encode(cards)).and_then(|()| file.sync_all());
    written.and_then(|()| fs::rename(&unfinished, path)).inspect_err(|_| {
        // What can't be written must not fill the disk.
        let _ = fs::remove_file(&unfinished);
    })
}

fn encode(cards: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = HEAD.to_vec();
    for card in cards {
        // No card is as long as that: all of them together are bounded.
        let Ok(length) = u32::try_from(card.len()) else { continue };
        bytes.extend(length.to_le_bytes());
        bytes.extend(checksum(card));
        bytes.extend(card);
    }
    bytes
}

/// Reads as many cards as are whole.
fn decode(bytes: &[u8]) -> Vec<Card> {
    let Some(mut rest) = bytes.strip_prefix(HEAD) else {
        warn!("the file with the sessions of the last process is none, or of another version; they end");
        return Vec::new();
    };
    let mut cards = Vec::new();
    while !rest.is_empty() {
        let Some((card, sum, behind)) = split(rest) else {
            warn!("the file with the sessions of the last process ends early; the rest of them end");
            break;
        };
        rest = behind;
        if checksum(card) != sum {
            warn!("a session of the last process is damaged and ends");
            continue;
        }
        match Card::decode(card) {
            Ok(card) => cards.push(card),
            Err(error) => warn!(%error, "a session of the last process can't be read and ends"),
        }
    }
    cards
}

/// Returns the first card, its checksum, and what follows.
fn split(bytes: &[u8]) -> Option<(&[u8], [u8; CHECKSUM], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<CHECKSUM>()?;
    let (card, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some((card, *sum, rest))
}

fn checksum(card: &[u8]) -> [u8; CHECKSUM] {
    let digest = Sha256::digest(card);
    std::array::from_fn(|at| digest.get(at).copied().unwrap_or_default())
}

/// The first bytes of the file: what it is, and the version of its form.
const HEAD: &[u8] = b"rookery sessions 1\n";
/// Bytes of a checksum.
const CHECKSUM: usize = 8;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::*;

    fn card(home: &str) -> Vec<u8> {
        Card::Letter(home.into(), "kind".into(), vec![7; 40].into()).encode().expect("a card")
    }

    fn homes(cards: &[Card]) -> Vec<&str> {
        cards.iter().map(Card::home).collect()
    }

    #[test]
    fn cards_are_read_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let folder = Folder::new(directory.path().to_owned());
        keep(&folder, &[card("a@x"), card("b@x")]);
        let mode = fs::metadata(folder.sessions()).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "nobody else reads it");
        assert_eq!(homes(&take(&folder)), ["a@x", "b@x"]);
        assert!(take(&folder).is_empty() && !folder.sessions().exists());
    }

    #[test]
    fn a_damaged_card_does_not_take_others_along() {
        let mut bytes = encode(&[card("a@x"), card("b@x"), card("c@x")]);
        let second = HEAD.len() + 4 + CHECKSUM + card("a@x").len() + 4 + CHECKSUM + 3;
        bytes[second] ^= 1;
        assert_eq!(homes(&decode(&bytes)), ["a@x", "c@x"]);
        bytes.truncate(bytes.len() - 1);
        assert_eq!(homes(&decode(&bytes)), ["a@x"]);
        assert!(decode(b"something else").is_empty() && decode(b"").is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: proptest::test_runner::RngSeed::Fixed(1), ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_cards_or_skipped(bytes: Vec<u8>) {
            decode(&bytes);
            decode(&[HEAD, &bytes].concat());
        }
    }
}
