//! The file in which a stopping server leaves its sessions for the next start.
//!
//! It is a file rather than rows of the store: other servers may share the store, or it may be
//! unreachable at the moment of the stop, and the contents only matter to the next process in this
//! place. It belongs to the server's user alone, is written completely or not at all, and is read
//! once: it is removed before any client is served, so that no session continues twice. A server
//! that dies leaves none.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rookery_hub::{Card, Settings, management};
use rookery_shard::handover::MOST_BYTES;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use tracing::{info, warn};

use crate::clock;
use crate::folder::Folder;

/// The place of the file. It is reserved before any session is touched: if the disk is full, that
/// is known in time, and the sessions end like those of a server that won't come back.
#[derive(Debug)]
pub struct CardPlace {
    file: File,
    /// The name until the file is complete.
    unfinished: PathBuf,
    path: PathBuf,
    is_kept: bool,
}

/// Reserves space for a server with this many sessions, for which this many bytes wait; `None` if
/// there is no space, and the server has to stop without leaving a file.
pub fn make_room(folder: &Folder, sessions: usize, unread_bytes: usize) -> Option<CardPlace> {
    let path = folder.sessions();
    match CardPlace::make(&path, (sessions * SESSION_BYTES + 2 * unread_bytes).clamp(SESSION_BYTES, MOST_BYTES)) {
        Ok(place) => Some(place),
        Err(error) => {
            warn!(file = %path.display(), %error, "sessions can't be saved for the next start, and end");
            None
        }
    }
}

impl CardPlace {
    fn make(path: &Path, bytes: usize) -> io::Result<CardPlace> {
        let unfinished = temporary_name(path);
        let _ = fs::remove_file(&unfinished);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
        let place = CardPlace { file, unfinished, path: path.to_owned(), is_kept: false };
        match fallocate(&place.file, FallocateFlags::KEEP_SIZE, 0, bytes as u64) {
            // If a file system can't reserve space, writing shows whether there is enough.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            allocated => allocated?,
        }
        Ok(place)
    }

    /// Writes the cards into the reserved file and gives it its name. Without any cards there is no
    /// file.
    pub fn keep(mut self, cards: &[Vec<u8>]) {
        if cards.is_empty() {
            return;
        }
        let file = self.path.display().to_string();
        match self.write(cards, clock::now()) {
            Ok(()) => info!(cards = cards.len(), file, "sessions were saved for the next start"),
            Err(error) => {
                warn!(file, %error, "sessions can't be saved; clients will log in again, and find their messages in the archive");
            }
        }
    }

    /// Writes the file under another name first, so that a file with the right name is complete.
    fn write(&mut self, cards: &[Vec<u8>], now: u64) -> io::Result<()> {
        let bytes = encode(cards, now);
        self.file.write_all(&bytes)?;
        // More space may have been reserved than the cards need.
        self.file.set_len(bytes.len() as u64)?;
        self.file.sync_all()?;
        fs::rename(&self.unfinished, &self.path)?;
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for CardPlace {
    fn drop(&mut self) {
        // A file that isn't completed must not fill the disk.
        if !self.is_kept {
            let _ = fs::remove_file(&self.unfinished);
        }
    }
}

/// Reads the cards that the last process left, and removes them. If they were written longer ago
/// than any session waits, the rooms among them are left out, since others may have their names by
/// now.
pub fn take(folder: &Folder, longest_wait: Duration) -> Vec<Card> {
    let path = folder.sessions();
    // This file is left by a process that died while it wrote.
    let _ = fs::remove_file(temporary_name(&path));
    let bytes = match read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            warn!(file = %path.display(), %error, "the sessions of the last process can't be read and end");
            return Vec::new();
        }
    };
    if let Err(error) = fs::remove_file(&path) {
        // If the file stayed, these sessions would continue again at every start.
        warn!(file = %path.display(), %error, "the sessions of the last process end, because their file can't be removed");
        return Vec::new();
    }
    let (written, mut cards) = decode(&bytes);
    let seconds = clock::now().saturating_sub(written);
    if seconds > longest_wait.as_secs() {
        info!(cards = cards.len(), seconds, "the sessions of an old process end; their messages are delivered");
        cards.retain(|card| matches!(card, Card::Session(_)));
    } else {
        info!(cards = cards.len(), "the sessions of the last process were restored");
    }
    cards
}

/// Returns the longest time for which a session of any domain waits for its client.
pub fn longest_wait(settings: &Settings) -> Duration {
    let options = settings.domains.iter().filter_map(|domain| domain.module(management::MODULE));
    let seconds = options.map(|options| options.number(management::RESUME_SECONDS));
    Duration::from_secs(seconds.max().unwrap_or_default())
}

/// Returns the name of the file while it is being written.
fn temporary_name(path: &Path) -> PathBuf {
    path.with_extension("new")
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = MOST_BYTES as u64 * 2;
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn encode(cards: &[Vec<u8>], now: u64) -> Vec<u8> {
    let mut bytes = HEAD.to_vec();
    bytes.extend(now.to_le_bytes());
    for card in cards {
        // No card is that long, since all of them together are bounded.
        let Ok(length) = u32::try_from(card.len()) else { continue };
        bytes.extend(length.to_le_bytes());
        bytes.extend(checksum(card));
        bytes.extend(card);
    }
    bytes
}

/// Reads all complete cards. Returns them with the time at which they were written, in seconds
/// since 1970.
fn decode(bytes: &[u8]) -> (u64, Vec<Card>) {
    let Some((written, mut rest)) = bytes.strip_prefix(HEAD).and_then(<[u8]>::split_first_chunk) else {
        warn!("the file with the sessions of the last process is invalid or from another version; they end");
        return (0, Vec::new());
    };
    let mut cards = Vec::new();
    while !rest.is_empty() {
        let Some((card, sum, behind)) = split(rest) else {
            warn!("the file with the sessions of the last process is truncated; the rest of them end");
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
    (u64::from_le_bytes(*written), cards)
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

/// The first bytes of the file: its kind, and the version of its format. The time follows.
const HEAD: &[u8] = b"rookery sessions 2\n";
/// The bytes of a session's card, apart from waiting stanzas; a generous estimate.
const SESSION_BYTES: usize = 4096;
/// The length of a checksum in bytes.
const CHECKSUM: usize = 8;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::*;

    fn card(home: &str) -> Vec<u8> {
        Card::Memo(home.into(), "kind".into(), vec![7; 40].into()).encode().expect("a card")
    }

    const WAIT: Duration = Duration::from_secs(600);

    fn keep(folder: &Folder, cards: &[Vec<u8>]) {
        make_room(folder, cards.len(), 0).expect("room").keep(cards);
    }

    fn homes(cards: &[Card]) -> Vec<&str> {
        cards.iter().map(Card::home).collect()
    }

    #[test]
    fn cards_are_read_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let folder = Folder::new(directory.path().to_owned());
        keep(&folder, &[card("a@x"), card("b@x")]);
        assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 1);
        let mode = fs::metadata(folder.sessions()).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "nobody else reads it");
        assert_eq!(homes(&take(&folder, WAIT)), ["a@x", "b@x"]);
        assert!(take(&folder, WAIT).is_empty() && !folder.sessions().exists());
    }

    #[test]
    fn room_that_is_not_used_is_given_back() {
        let directory = tempfile::tempdir().expect("a directory");
        let folder = Folder::new(directory.path().to_owned());
        keep(&folder, &[]);
        drop(make_room(&folder, 10, 10_000).expect("room"));
        assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 0);
    }

    #[test]
    fn a_server_without_room_knows_it_before_its_sessions_do() {
        let directory = tempfile::tempdir().expect("a directory");
        let folder = Folder::new(directory.path().join("missing"));
        assert!(make_room(&folder, 10, 10_000).is_none());
    }

    /// Old rooms could take the place of others; old sessions end by themselves, and their waiting
    /// stanzas are delivered.
    #[test]
    fn rooms_of_long_ago_do_not_go_on() {
        let directory = tempfile::tempdir().expect("a directory");
        let folder = Folder::new(directory.path().to_owned());
        let mut place = make_room(&folder, 0, 0).expect("room");
        place.write(&[card("a@x")], clock::now() - WAIT.as_secs() - 60).expect("written");
        assert!(take(&folder, WAIT).is_empty() && !folder.sessions().exists());
    }

    #[test]
    fn a_damaged_card_does_not_take_others_along() {
        let mut bytes = encode(&[card("a@x"), card("b@x"), card("c@x")], 7);
        let second = HEAD.len() + 8 + 4 + CHECKSUM + card("a@x").len() + 4 + CHECKSUM + 3;
        bytes[second] ^= 1;
        assert_eq!(homes(&decode(&bytes).1), ["a@x", "c@x"]);
        bytes.truncate(bytes.len() - 1);
        assert_eq!(homes(&decode(&bytes).1), ["a@x"]);
        assert_eq!(decode(&bytes).0, 7);
        assert!(decode(b"something else").1.is_empty() && decode(b"").1.is_empty() && decode(HEAD).1.is_empty());
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
