//! Mail between shards: data, with a wire format.
//!
//! Shards of one process hand each other [`Parcel`]s by pointer, so that packets stay shared. The
//! wire format is for shards elsewhere, and for tests that encode all mail
//! ([`World::encode_mail`](crate::World::encode_mail)), so that no mail is meaningful in only one
//! process.
//!
//! # Invariants
//!
//! * Mail of one shard to another arrives in the order in which it was posted.
//! * Decoded data is validated again: stanzas are scanned, addresses prepared. Invalid bytes are
//!   refused as a whole.
//! * Custody ([`crate::custody`]) stays in the process: it is the sender's until the mail has been
//!   read.

use std::sync::Arc;

use postcard::Error as Malformed;
use rookery_fanout::multicast::Distant;
use rookery_fanout::{Addresses, Packet, Station};
use rookery_jid::Jid;
use serde::{Deserialize, Serialize, Serializer};
use serde_bytes::{ByteBuf, Bytes};

use crate::calls::{CarriedMemo, CarriedQuestion};
use crate::custody::Custody;
use crate::letter_versions::{LETTERS, MARKS_AGAIN};
use crate::reply::AnswerPlace;

/// Carries one shard's messages to another.
///
/// [`ReadMail`] has the same variants in the same order: that is the wire form.
#[derive(Debug, Serialize)]
pub(crate) enum Mail {
    /// A stanza for an address whose home is the receiving shard.
    Route { to: Jid, packet: Packet },
    /// A stanza for many addresses, bare or full, whose home is the receiving shard.
    Copies {
        #[serde(serialize_with = "write_shared")]
        to: Arc<Addresses>,
        packet: Packet,
    },
    /// Many stanzas, in their order, for an address whose home is the receiving shard.
    Bundle { to: Jid, packets: Vec<Packet> },
    /// A stanza for a service that the receiving shard has a part of.
    Service { to: Jid, packet: Packet },
    /// A part of a multicast for a remote domain whose home is the receiving shard.
    Distant(Box<Distant>),
    /// A resource has become available and wants to know the presence of these accounts (RFC 6121
    /// §4.3).
    Probe { from: Jid, to: Addresses },
    /// A memo of a module to itself on the receiving shard.
    Memo(#[serde(serialize_with = "write_memo")] Box<dyn CarriedMemo>),
    /// A question to the receiving shard, and where its answer belongs.
    Question {
        #[serde(serialize_with = "write_question")]
        question: Box<dyn CarriedQuestion>,
        asker: AnswerPlace,
    },
    /// The answer to a question of the receiving shard, encoded.
    Reply {
        asker: AnswerPlace,
        #[serde(with = "serde_bytes")]
        answer: Vec<u8>,
    },
    /// A stanza that has come in from another server, at a node that isn't the home of its domain:
    /// the receiving shard is.
    Incoming { to: Jid, packet: Packet },
    /// A stream of a remote domain, whose home is the receiving shard, has broken at another node.
    Lost { domain: String },
    /// The sending shard uses the homes of the view with this name: its earlier mail went by the
    /// previous ones.
    Homes { from: Station, view: u64 },
    /// The sending shard has sent everything that it had for others by the view of this name.
    Sent { from: Station, view: u64 },
    /// Parts of another node that continue on the receiving shard, in the wire format of cards.
    Cards(Vec<ByteBuf>),
}

/// [`Mail`] as its reader decodes it: kinds of memos and questions are names until the registry
/// resolves them.
#[derive(Deserialize)]
pub(crate) enum ReadMail<'a> {
    Route {
        to: Jid,
        packet: Packet,
    },
    Copies {
        to: Addresses,
        packet: Packet,
    },
    Bundle {
        to: Jid,
        packets: Vec<Packet>,
    },
    Service {
        to: Jid,
        packet: Packet,
    },
    Distant(Box<Distant>),
    Probe {
        from: Jid,
        to: Addresses,
    },
    #[serde(borrow)]
    Memo(NamedValue<'a>),
    Question {
        #[serde(borrow)]
        question: NamedValue<'a>,
        asker: AnswerPlace,
    },
    Reply {
        asker: AnswerPlace,
        #[serde(with = "serde_bytes")]
        answer: Vec<u8>,
    },
    Incoming {
        to: Jid,
        packet: Packet,
    },
    Lost {
        domain: String,
    },
    Homes {
        from: Station,
        view: u64,
    },
    Sent {
        from: Station,
        view: u64,
    },
    Cards(Vec<ByteBuf>),
}

/// A value of some kind: its name, and its bytes.
#[derive(Serialize, Deserialize)]
pub(crate) struct NamedValue<'a>(pub(crate) &'a str, #[serde(borrow)] pub(crate) &'a Bytes);

fn write_shared<S: Serializer>(names: &Arc<Addresses>, serializer: S) -> Result<S::Ok, S::Error> {
    names.serialize(serializer)
}

fn write_memo<S: Serializer>(memo: &impl AsRef<dyn CarriedMemo>, serializer: S) -> Result<S::Ok, S::Error> {
    write_named(memo.as_ref().name(), memo.as_ref().encode(), serializer)
}

fn write_question<S: Serializer>(question: &impl AsRef<dyn CarriedQuestion>, serializer: S) -> Result<S::Ok, S::Error> {
    write_named(question.as_ref().name(), question.as_ref().encode(), serializer)
}

fn write_named<S: Serializer>(name: &str, bytes: Result<Vec<u8>, Malformed>, serializer: S) -> Result<S::Ok, S::Error> {
    let bytes = bytes.map_err(serde::ser::Error::custom)?;
    NamedValue(name, Bytes::new(&bytes)).serialize(serializer)
}

/// Mail, and in whose custody it was posted.
#[derive(Debug)]
pub struct Parcel {
    pub(crate) mail: Mail,
    pub(crate) custody: Option<Custody>,
}

/// The reasons why mail has no wire form, or why bytes aren't mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MailError {
    /// It is larger than [`MAX_BYTES`]: this many bytes.
    TooLarge(usize),
    /// It is of another version of this server.
    Version(Option<u8>),
    /// Its kind of memo or question is one that no module declares.
    UnknownKind(String),
    /// Its bytes aren't valid, or it must not leave the process.
    Malformed(String),
}

impl std::fmt::Display for MailError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLarge(bytes) => write!(f, "mail of {bytes} bytes; at most {MAX_BYTES} may be sent"),
            Self::Version(version) => write!(f, "mail of version {version:?}; this server writes version {VERSION}"),
            Self::UnknownKind(kind) => write!(f, "no module knows the memo or question \"{kind}\""),
            Self::Malformed(why) => write!(f, "malformed mail: {why}"),
        }
    }
}

impl std::error::Error for MailError {}

impl From<Malformed> for MailError {
    fn from(why: Malformed) -> Self {
        Self::Malformed(why.to_string())
    }
}

impl Parcel {
    /// Returns the wire form: the version, then the mail. Custody isn't part of it.
    ///
    /// # Errors
    /// The mail is too large, or has something in it that never leaves its shard.
    pub fn encode(&self) -> Result<Vec<u8>, MailError> {
        let bytes = postcard::to_extend(&self.mail, vec![VERSION])?;
        if bytes.len() > MAX_BYTES { Err(MailError::TooLarge(bytes.len())) } else { Ok(bytes) }
    }

    /// Returns the wire form for a process that understands letters up to a version, without the
    /// parts that it would fail to read; `None` if it doesn't understand the parcel at all.
    ///
    /// # Errors
    /// As [`Parcel::encode`].
    pub fn encode_for(&mut self, letters: u16) -> Result<Option<Vec<u8>>, MailError> {
        if letters >= LETTERS {
            return self.encode().map(Some);
        }
        match &mut self.mail {
            Mail::Memo(memo) if memo.since() > letters => return Ok(None),
            Mail::Route { packet, .. }
            | Mail::Copies { packet, .. }
            | Mail::Service { packet, .. }
            | Mail::Incoming { packet, .. }
                if letters < MARKS_AGAIN && packet.is_again() =>
            {
                *packet = packet.once();
            }
            Mail::Bundle { packets, .. } if letters < MARKS_AGAIN => {
                packets.iter_mut().filter(|packet| packet.is_again()).for_each(|packet| *packet = packet.once());
            }
            _ => {}
        }
        self.encode().map(Some)
    }

    /// Returns whether the parcel has cards of homes that move.
    pub fn is_handed_on(&self) -> bool {
        matches!(self.mail, Mail::Cards(_))
    }

    /// Takes the parcel's share in the custody that it was posted in, for the caller to keep until
    /// the parcel has been read elsewhere.
    pub fn take_custody(&mut self) -> Option<Custody> {
        self.custody.take()
    }
}

/// The version of the wire form: its first byte. A change of [`Mail`], or of any memo or question,
/// raises it. Adding a kind of mail after the others doesn't: a reader that doesn't know the kind
/// drops only that mail.
pub(crate) const VERSION: u8 = 2;

/// The largest wire form, in bytes.
pub const MAX_BYTES: usize = 16 << 20;
