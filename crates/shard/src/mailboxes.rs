//! Mailboxes of shards, for each other and for their owner, with at most one wake per batch.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, OnceLock};

use rookery_base::Transport;
use rookery_base::lock::lock;
use rookery_fanout::{Station, View};
use rookery_federation::Found;
use rookery_federation::report::StreamReport;
use rookery_hub::Errand;
use rookery_hub::mail::Parcel;
use rookery_hub::{Card, Custody, JournalBatch, JournalFields, JournalLookup, ReturnedMail};
use rookery_hub::{Network, Settings};
use rookery_observe::Since;
use rookery_sasl::ChannelBindings;
use rookery_stream::bosh::{AnswerCondition, BoshAnswer, BoshBody, Terms, Waiter, Whose};
use rookery_stream::c2s::Policy;
use rookery_stream::tls::{ServerTls, TlsSettings};
use rookery_xml::Limits;

use crate::census::ShardCensus;
use crate::connection::ShardConnection;
use crate::gate::LoginTerms;
use crate::gathered::GatheredCards;
use crate::relays::RemoteAskers;
use crate::sids::Sids;
use crate::wires::{FederationTerms, Moving};

/// One generation of the operator's settings. A reload makes a new one; existing connections keep
/// the terms that they have agreed on.
#[derive(Clone)]
pub struct Generation {
    /// The settings of the world.
    pub settings: Arc<Settings>,
    /// The settings of streams that are not bound yet.
    pub policy: Arc<Policy>,
    /// The certificates, if there are any: without them STARTTLS is not offered.
    pub tls: Option<TlsSettings>,
    /// The networks from which clients may log in without TLS.
    pub plaintext: Vec<Network>,
    /// Limits of a stanza of a bound stream.
    pub limits: Limits,
    /// Seconds until a connection must have bound a resource.
    pub login_seconds: u64,
    /// Connections that one address may have; 0 for no limit.
    pub connections_per_address: u32,
    /// The terms on which clients may try to log in.
    pub logins: LoginTerms,
    /// The settings of new BOSH sessions.
    pub bosh: Terms,
    /// The settings of streams with other servers and components; without them there are no such
    /// streams.
    pub federation: Option<Arc<FederationTerms>>,
}

/// The protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// Client streams that start in the clear.
    Clients,
    /// Client streams under TLS from their first byte (XEP-0368).
    ClientsTls,
    /// Streams of other servers that start in the clear.
    Servers,
    /// Streams of other servers under TLS from their first byte (XEP-0368).
    ServersTls,
    /// Streams of components (XEP-0114).
    Components,
}

impl std::fmt::Debug for Generation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Generation").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// An envelope to a shard.
pub enum Envelope<S> {
    /// A connection that somebody else accepted.
    Accepted {
        /// The connection.
        socket: S,
        /// The address that it comes from.
        peer: SocketAddr,
        /// The protocol of the port that it came in on.
        port: Port,
    },
    /// A connection that the web front has begun to serve, and that turned out to be for a shard.
    Handed(Box<Handed<S>>),
    /// A request of BOSH that the web front has read.
    Bosh(Box<BoshRequest>),
    /// The connection of a request of this session broke before it was answered.
    BoshGone(u128),
    /// A connection that has logged in, for its home.
    Moved(Box<ShardConnection<S>>),
    /// A connection of another server, for the home of its domain.
    ServerMoved(Box<Moving<S>>),
    /// The addresses of a domain's server, as the resolver found them.
    Resolved(Box<str>, Found),
    /// Mail from the world of another shard, in order.
    Mail(Vec<Parcel>, Posted),
    /// Mail from a shard of another node, in order, in the custody that this node has made for it.
    Afar(Station, Vec<(MailboxKind, Vec<u8>)>, Option<Custody>),
    /// Mail of this shard that could not be delivered to another node, with its share in custody.
    Refused(Vec<u8>, Option<Custody>),
    /// Mail of this shard for homes that others have now, with its share in custody.
    Again(Vec<u8>, Option<Custody>),
    /// Use these homes from now on, and send mail of this shard again that the former ones haven't
    /// handled.
    View(Arc<View>, Vec<ReturnedMail>),
    /// This process of another node is silent, and may be gone: the node, and the number of the
    /// process.
    Silent(u16, u32),
    /// This process of another node is gone: the node, and the number of the process.
    Departed(u16, u32),
    /// The journal has lost its contents: an era with this number begins.
    RewriteJournal(u64),
    /// The requested contents of the journal of this process.
    Recovered((u16, u32), JournalFields),
    /// Work of another thread of the process.
    Errand(Errand, Posted),
    /// Use these settings from now on.
    Reload(Arc<Generation>),
    /// Admit no more clients: the node is leaving its cluster.
    Shut,
    /// End all streams with `system-shutdown`. With `hands_on`, sessions whose clients may come
    /// back only lose their connections, and wait for [`Envelope::HandOn`].
    Stop {
        /// True if another process continues these sessions.
        hands_on: bool,
    },
    /// End the sessions that can't continue in another process, so that the cards of the others
    /// have at most this number of bytes.
    EndOthers(usize, SyncSender<()>),
    /// Give up the sessions that continue in another process: add their cards, within this number
    /// of bytes, to these.
    HandOn(usize, Arc<GatheredCards>, SyncSender<()>),
    /// Take up these parts of another process. All consequences are in the custody.
    GoOn(Vec<Card>, Custody),
    /// Continue with them: all shards have taken up theirs.
    Proceed,
    /// Add the streams with other servers to these.
    Servers(Arc<Mutex<Vec<StreamReport>>>, SyncSender<()>),
    /// End the streams with a domain, and add how many there were.
    CloseServers(Arc<Closing>, SyncSender<()>),
    /// Add the shard's counts to this.
    Count(Arc<Mutex<ShardCensus>>, SyncSender<()>),
}

/// The streams with other servers that are to end.
#[derive(Debug)]
pub struct Closing {
    /// The other domain.
    pub remote: String,
    /// The domains of this server that it concerns; `None` for all.
    pub locals: Option<Vec<String>>,
    /// Streams that were ended so far.
    pub closed: AtomicUsize,
}

/// The times at which an envelope was posted and at which the tick began that wrote it.
#[derive(Debug, Clone, Copy)]
pub struct Posted {
    /// The start of the tick that wrote it.
    pub since: Since,
    /// The moment of posting.
    pub at: Since,
}

/// A connection after its handshakes.
pub struct Handed<S> {
    /// The connection.
    pub socket: S,
    /// The client's address, which a trusted proxy may have told.
    pub peer: SocketAddr,
    /// TLS, established.
    pub tls: Option<ServerTls>,
    /// The channel bindings of TLS, wherever it ends; none if the client can't know them.
    pub bindings: ChannelBindings,
    /// Input that came in after the handshakes, decrypted.
    pub input: Vec<u8>,
    /// True if a trusted proxy encrypts the way between the client and itself.
    pub is_encrypted_by_proxy: bool,
    /// True if its address counts where clients may log in without TLS. It doesn't if somebody else
    /// may speak from there: a proxy for unknown clients, or a page of another site in a browser.
    pub is_local: bool,
    /// A WebSocket (RFC 7395), or TCP for a stream that was found by ALPN (XEP-0368). Requests of
    /// BOSH come one by one instead.
    pub transport: Transport,
}

/// A request of BOSH (XEP-0124).
pub struct BoshRequest {
    /// The request's `<body/>`, and the session that it names.
    pub request: BoshBody,
    /// The request that waits for the answer.
    pub waiter: Box<dyn Waiter>,
    /// The client's address, which a trusted proxy may have told.
    pub peer: SocketAddr,
    /// True if the way between the client and us, or a trusted proxy, is encrypted.
    pub is_secure: bool,
    /// True if its address counts where clients may log in without TLS, as with
    /// [`Handed::is_local`].
    pub is_local: bool,
}

impl<S> std::fmt::Debug for Envelope<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Accepted { .. } => "Accepted",
            Self::Handed(_) => "Handed",
            Self::Bosh(_) => "Bosh",
            Self::BoshGone(_) => "BoshGone",
            Self::Moved(_) => "Moved",
            Self::ServerMoved(_) => "ServerMoved",
            Self::Resolved(..) => "Resolved",
            Self::Mail(..) => "Mail",
            Self::Afar(..) => "Afar",
            Self::Again(..) => "Again",
            Self::Refused(..) => "Refused",
            Self::View(..) => "View",
            Self::Silent(..) => "Silent",
            Self::Departed(..) => "Departed",
            Self::RewriteJournal(_) => "RewriteJournal",
            Self::Recovered(..) => "Recovered",
            Self::Errand(..) => "Errand",
            Self::Reload(_) => "Reload",
            Self::Shut => "Shut",
            Self::Stop { .. } => "Stop",
            Self::EndOthers(..) => "EndOthers",
            Self::HandOn(..) => "HandOn",
            Self::GoOn(..) => "GoOn",
            Self::Proceed => "Proceed",
            Self::Servers(..) => "Servers",
            Self::CloseServers(..) => "CloseServers",
            Self::Count(..) => "Count",
        })
    }
}

/// The kinds of letters between shards of different nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailboxKind {
    /// Mail of the world.
    Mail,
    /// A frame about a client whose session is on another node than its connection.
    Line,
}

/// A letter to a shard of another node.
#[derive(Debug)]
pub struct NodeLetter {
    /// The shard.
    pub to: Station,
    /// The kind of its content.
    pub kind: MailboxKind,
    /// Its wire form.
    pub bytes: Vec<u8>,
    /// A share in the custody of the work that wrote it, to be kept until it has been handled.
    pub custody: Option<Custody>,
    /// True if the share is kept only until the letter has been read. A home is opened when all of
    /// its parts have come, and nothing for it is handled before.
    pub until_read: bool,
}

/// Letters from a shard of another node to a shard of this process, in their order.
#[derive(Debug)]
pub struct ArrivedLetters {
    /// The shard of this process.
    pub shard: usize,
    /// The shard that wrote them.
    pub from: Station,
    /// Their kinds and wire forms.
    pub letters: Vec<(MailboxKind, Vec<u8>)>,
    /// A share in their custody, which all their consequences get.
    pub custody: Option<Custody>,
}

/// Letters that a shard has for other nodes, while they wait for more.
#[derive(Debug, Default)]
pub(crate) struct OutgoingLetters {
    pub(crate) letters: Vec<NodeLetter>,
    /// The sum of the letters' sizes in bytes, by which a batch is bounded.
    pub(crate) bytes: usize,
    /// The time before which nothing leaves, in milliseconds.
    pub(crate) next_ms: u64,
    /// True if something waits for that time: letters, or writes to the journal.
    pub(crate) waits: bool,
}

impl OutgoingLetters {
    /// Returns the time at which something is to leave, if anything waits.
    pub(crate) fn next_timer(&self) -> Option<u64> {
        self.waits.then_some(self.next_ms)
    }
}

/// Carries letters to other nodes.
pub trait Outlet: Send + Sync {
    /// Takes letters from one of this process's shards, in their order.
    fn post(&self, from: usize, letters: Vec<NodeLetter>);

    /// Carries out writes to the journal of the process, of one of its shards.
    fn journal(&self, from: usize, batch: JournalBatch);

    /// Reads the journal of a process that has died, for one of this process's shards, which gets
    /// an answer in any case ([`Envelope::Recovered`]).
    fn look_up(&self, shard: usize, lookup: JournalLookup);

    /// Returns whether processes that are [`overdue`](Self::overdue) are fenced off.
    fn fences_off(&self) -> bool {
        false
    }

    /// Fences off a process of another node that is late in handing on the data of homes of this
    /// process, so that others take over from it.
    fn overdue(&self, _node: u16, _incarnation: u32) {}

    /// Removes the part of a dead process's journal that was read for a shard, since the journal of
    /// this process now has all its consequences.
    fn have_read(&self, shard: usize, read: JournalLookup);

    /// Returns the time for which letters and writes wait for others that could go with them, in
    /// milliseconds; 0 if they leave at the end of each tick.
    fn linger_ms(&self) -> u64 {
        0
    }
}

/// The mailboxes of all shards. Letters from one writer to one shard arrive in order.
pub struct Post<S> {
    boxes: Vec<Mailbox<S>>,
    /// The places of BOSH sessions.
    pub(crate) sids: Sids,
    /// Waiters of other nodes for responses over BOSH.
    pub(crate) askers: Arc<RemoteAskers>,
    outlet: OnceLock<Arc<dyn Outlet>>,
    /// The shards that have come to rest while the server stops.
    resting: Vec<AtomicBool>,
    /// Counts how often a shard began to work again.
    stirred: AtomicUsize,
    /// True once the node has begun to leave its cluster.
    is_shut: AtomicBool,
    /// The shards that have handed on all their sessions and rooms.
    moved_out: Vec<AtomicBool>,
}

struct Mailbox<S> {
    envelopes: Mutex<Vec<Envelope<S>>>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl<S> Mailbox<S> {
    /// Adds envelopes, and wakes the shard unless others wait already.
    fn put(&self, new: impl IntoIterator<Item = Envelope<S>>) {
        let mut envelopes = lock(&self.envelopes);
        let was_empty = envelopes.is_empty();
        envelopes.extend(new);
        if was_empty {
            drop(envelopes);
            (self.wake)();
        }
    }
}

impl<S> std::fmt::Debug for Post<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Post").field("shards", &self.boxes.len()).finish()
    }
}

impl<S> Post<S> {
    /// Makes one mailbox per waker. A waker is called when its mailbox was empty and gets
    /// something.
    pub fn new(wakers: Vec<Box<dyn Fn() + Send + Sync>>) -> Arc<Self> {
        let resting = wakers.iter().map(|_| AtomicBool::new(false)).collect();
        let moved_out = wakers.iter().map(|_| AtomicBool::new(false)).collect();
        let boxes = wakers.into_iter().map(|wake| Mailbox { envelopes: Mutex::default(), wake }).collect();
        let stirred = AtomicUsize::new(0);
        Arc::new(Self {
            boxes,
            sids: Sids::default(),
            askers: Arc::default(),
            outlet: OnceLock::new(),
            resting,
            stirred,
            is_shut: AtomicBool::new(false),
            moved_out,
        })
    }

    /// Sets the carrier of letters to other nodes, once.
    pub fn connect(&self, outlet: Arc<dyn Outlet>) {
        _ = self.outlet.set(outlet);
    }

    /// Gives letters of a shard to the thread that carries them to other nodes.
    pub(crate) fn post_afar(&self, from: usize, letters: Vec<NodeLetter>) {
        if let Some(outlet) = self.outlet.get() {
            outlet.post(from, letters);
        }
    }

    /// Gives writes of a shard to the thread that keeps the journal.
    pub(crate) fn journal(&self, from: usize, batch: JournalBatch) {
        if let Some(outlet) = self.outlet.get() {
            outlet.journal(from, batch);
        }
    }

    /// Gives a question of a shard to the thread that keeps the journal.
    pub(crate) fn look_up(&self, from: usize, lookup: JournalLookup) {
        if let Some(outlet) = self.outlet.get() {
            outlet.look_up(from, lookup);
        }
    }

    /// Returns whether processes that are late can be fenced off.
    pub(crate) fn fences_off(&self) -> bool {
        self.outlet.get().is_some_and(|outlet| outlet.fences_off())
    }

    /// Has a late process fenced off.
    pub(crate) fn overdue(&self, node: u16, incarnation: u32) {
        if let Some(outlet) = self.outlet.get() {
            outlet.overdue(node, incarnation);
        }
    }

    /// Has the thread that keeps the journal remove the part of another journal that a shard has
    /// read.
    pub(crate) fn have_read(&self, from: usize, read: JournalLookup) {
        if let Some(outlet) = self.outlet.get() {
            outlet.have_read(from, read);
        }
    }

    /// Returns the time for which data for other nodes waits for more, in milliseconds.
    pub(crate) fn linger_ms(&self) -> u64 {
        self.outlet.get().map_or(0, |outlet| outlet.linger_ms())
    }

    /// Returns the carrier of letters to other nodes.
    pub(crate) fn outlet(&self) -> Option<Arc<dyn Outlet>> {
        self.outlet.get().cloned()
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> usize {
        self.boxes.len()
    }

    /// Sends an envelope. If the shard doesn't exist, the envelope is dropped, but a letter of
    /// another node goes to the first shard, so that nothing in its custody is given up unread.
    pub fn send(&self, shard: usize, envelope: Envelope<S>) {
        let first = || self.boxes.first().filter(|_| matches!(envelope, Envelope::Afar(..)));
        if let Some(mailbox) = self.boxes.get(shard).or_else(first) {
            mailbox.put([envelope]);
        }
    }

    /// Sends letters of other nodes, and wakes each shard at most once. Letters for a shard that
    /// doesn't exist go to the first one, as with [`Post::send`].
    pub fn send_arrived(&self, arrived: Vec<ArrivedLetters>) {
        let mut of_shards: BTreeMap<usize, Vec<Envelope<S>>> = BTreeMap::new();
        for ArrivedLetters { shard, from, letters, custody } in arrived {
            let shard = if shard < self.boxes.len() { shard } else { 0 };
            of_shards.entry(shard).or_default().push(Envelope::Afar(from, letters, custody));
        }
        for (shard, envelopes) in of_shards {
            if let Some(mailbox) = self.boxes.get(shard) {
                mailbox.put(envelopes);
            }
        }
    }

    /// Gives a request of BOSH to the shard of its session; one that opens a session to the shard
    /// whose turn it is.
    pub fn request(&self, posted: BoshRequest, turn: usize) {
        let shard = match posted.request.whose {
            Whose::Session(sid) => self.sids.shard_for(sid, self.shards()),
            Whose::New(_) => Some(turn % self.shards().max(1)),
            Whose::Nobody => None,
        };
        match shard {
            Some(shard) => self.send(shard, Envelope::Bosh(Box::new(posted))),
            None => posted.waiter.answer(BoshAnswer::refusal(AnswerCondition::ItemNotFound)),
        }
    }

    /// Takes all envelopes that wait for a shard.
    pub fn take(&self, shard: usize) -> Vec<Envelope<S>> {
        let envelopes = self.boxes.get(shard).map(|mailbox| &mailbox.envelopes);
        envelopes.map(|envelopes| std::mem::take(&mut *lock(envelopes))).unwrap_or_default()
    }

    /// Records that a stopping shard has come to rest, or is about to work again.
    pub(crate) fn rest(&self, shard: usize, is_resting: bool) {
        if let Some(resting) = self.resting.get(shard)
            && resting.swap(is_resting, Ordering::SeqCst)
            && !is_resting
        {
            self.stirred.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Stops admitting clients.
    pub(crate) fn shut_out(&self) {
        self.is_shut.store(true, Ordering::SeqCst);
        (0..self.shards()).for_each(|shard| self.send(shard, Envelope::Shut));
    }

    /// Returns whether clients aren't admitted any more.
    pub(crate) fn is_shut(&self) -> bool {
        self.is_shut.load(Ordering::SeqCst)
    }

    /// Records whether a shard has handed on all its sessions and rooms.
    pub(crate) fn note_moved_out(&self, shard: usize, has_moved_out: bool) {
        if let Some(moved_out) = self.moved_out.get(shard) {
            moved_out.store(has_moved_out, Ordering::SeqCst);
        }
    }

    /// Returns whether all shards have handed on all their sessions and rooms.
    pub(crate) fn have_moved_out(&self) -> bool {
        self.moved_out.iter().all(|moved_out| moved_out.load(Ordering::SeqCst))
    }

    /// Returns whether all shards of a server that stops have come to rest and none has mail, so
    /// that none begins to work again by itself.
    pub(crate) fn is_at_rest(&self) -> bool {
        let stirred = self.stirred.load(Ordering::SeqCst);
        self.resting.iter().all(|resting| resting.load(Ordering::SeqCst))
            && self.boxes.iter().all(|mailbox| lock(&mailbox.envelopes).is_empty())
            && self.stirred.load(Ordering::SeqCst) == stirred
    }

    /// Wakes a shard that has no envelope: its store has answered.
    pub fn wake(&self, shard: usize) {
        if let Some(mailbox) = self.boxes.get(shard) {
            (mailbox.wake)();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stopping server makes cards once nothing can arrive any more.
    #[test]
    fn shards_are_at_rest_when_none_works_or_has_mail() {
        let post = Post::<()>::new((0..2).map(|_| Box::new(|| {}) as Box<dyn Fn() + Send + Sync>).collect());
        post.rest(0, true);
        assert!(!post.is_at_rest(), "the other one works");
        post.rest(1, true);
        assert!(post.is_at_rest());
        post.send(0, Envelope::Proceed);
        assert!(!post.is_at_rest(), "one has mail");
        post.rest(0, false);
        assert_eq!(post.take(0).len(), 1);
        assert!(!post.is_at_rest(), "one works");
        post.rest(0, true);
        assert!(post.is_at_rest());
    }
    /// Each wake of a shard costs more than several letters.
    #[test]
    fn letters_that_arrive_together_wake_a_shard_once() {
        let woken = Arc::new(AtomicUsize::new(0));
        let counts = woken.clone();
        let wake = move || _ = counts.fetch_add(1, Ordering::Relaxed);
        let post = Post::<()>::new(vec![Box::new(wake), Box::new(|| {})]);
        let arrived = |shard, number| ArrivedLetters {
            shard,
            from: Station { node: number, incarnation: 1, shard: 0 },
            letters: vec![(MailboxKind::Line, Vec::new())],
            custody: None,
        };
        post.send_arrived(vec![arrived(0, 1), arrived(1, 2), arrived(7, 3), arrived(0, 4)]);
        assert_eq!(woken.load(Ordering::Relaxed), 1);
        let writers = |shard| {
            let of = |envelope| match envelope {
                Envelope::Afar(from, ..) => from.node,
                other => panic!("{other:?}"),
            };
            post.take(shard).into_iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(writers(0), [1, 3, 4], "those for a shard that doesn't exist go to the first one");
        assert_eq!(writers(1), [2]);
    }
}
