//! The way to the shards for other threads, which give them connections, mail, an operator's
//! questions, and orders.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rookery_base::lock::lock;
use rookery_base::{Awaited, Completer, one_shot};
use rookery_fanout::View;
use rookery_federation::report::StreamReport;
use rookery_hub::{Custody, Errand, JournalFields, ReturnedMail, World};
use rookery_observe::Since;

use crate::census::{CensusDetails, Coverage, LoginCensus, ShardCensus};
use crate::gate::Gate;
use crate::mailboxes::{ArrivedLetters, BoshRequest, Closing, Envelope, Handed, Port, Post, Posted};
use crate::socket::SystemSocket;

/// A way to the shards, for threads that accept connections elsewhere. All clones are equivalent.
#[derive(Debug, Clone)]
pub struct Door {
    pub(super) post: Arc<Post<SystemSocket>>,
    pub(super) gate: Arc<Gate>,
    pub(super) epoch: Instant,
    pub(super) next: Arc<AtomicUsize>,
}

impl Door {
    /// Returns the gate that the shards ask, for code that checks passwords elsewhere.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Returns the time on the clock of the shards, milliseconds; it never goes back.
    pub fn now_ms(&self) -> u64 {
        self.epoch.elapsed().as_millis() as u64
    }

    /// Gives a connection to the shard whose turn it is. After login the connection moves to the
    /// home of its account.
    pub fn hand_over(&self, handed: Handed<SystemSocket>) {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        self.post.send(turn % self.post.shards().max(1), Envelope::Handed(Box::new(handed)));
    }

    /// Gives a shard a connection of another server that begins with TLS. None of its bytes may
    /// have been read.
    pub fn hand_over_server(&self, socket: TcpStream, peer: SocketAddr) {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let envelope = Envelope::Accepted { socket: socket.into(), peer, port: Port::ServersTls };
        self.post.send(turn % self.post.shards().max(1), envelope);
    }

    /// Runs `work` on the shard whose turn it is. The answer may come later, through the completer.
    /// The asker notices if the completer is dropped, as when the shard has ended.
    pub fn ask<T: Send + 'static>(&self, work: impl FnOnce(&mut World, Completer<T>) + Send + 'static) -> Awaited<T> {
        let (completer, answer) = one_shot();
        let now = Since::now();
        let posted = Posted { since: now, at: now };
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let errand = Errand::new(move |world| work(world, completer));
        self.post.send(turn % self.post.shards().max(1), Envelope::Errand(errand, posted));
        answer
    }

    /// Returns whether no clients are admitted any more, because the node is leaving its cluster.
    pub fn is_shut(&self) -> bool {
        self.post.is_shut()
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> usize {
        self.post.shards()
    }

    /// Runs `work` on a shard; does nothing if the shard has ended, or doesn't exist.
    pub fn run_at(&self, shard: usize, work: impl FnOnce(&mut World) + Send + 'static) {
        let now = Since::now();
        let posted = Posted { since: now, at: now };
        self.post.send(shard, Envelope::Errand(Errand::new(work), posted));
    }

    /// Gives shards letters of shards of other nodes, in their order. Each shard is woken once.
    pub fn deliver(&self, arrived: Vec<ArrivedLetters>) {
        self.post.send_arrived(arrived);
    }

    /// Returns to a shard mail of its own whose home is elsewhere now, so that it is sent there.
    pub fn again(&self, shard: usize, mail: Vec<u8>, custody: Option<Custody>) {
        self.post.send(shard, Envelope::Again(mail, custody));
    }

    /// Returns to a shard mail of its own that could not be delivered to another node.
    pub fn refused(&self, shard: usize, mail: Vec<u8>, custody: Option<Custody>) {
        self.post.send(shard, Envelope::Refused(mail, custody));
    }

    /// Makes all shards use other homes from now on. Mail that the former ones haven't handled goes
    /// back to the shards that wrote it, which send it again before anything else.
    pub fn set_view(&self, view: &Arc<View>, returned: Vec<(u16, ReturnedMail)>) {
        let mut of_shards: Vec<_> = (0..self.post.shards()).map(|_| Vec::new()).collect();
        for (shard, mail) in returned {
            if let Some(own) = of_shards.get_mut(usize::from(shard)) {
                own.push(mail);
            }
        }
        for (shard, returned) in of_shards.into_iter().enumerate() {
            self.post.send(shard, Envelope::View(view.clone(), returned));
        }
    }

    /// Makes all shards write their whole journals once more.
    pub fn rewrite_journal(&self, era: u64) {
        for shard in 0..self.post.shards() {
            self.post.send(shard, Envelope::RewriteJournal(era));
        }
    }

    /// Passes a shard the contents of a process's journal that it has asked for.
    pub fn recovered(&self, shard: usize, process: (u16, u32), fields: JournalFields) {
        self.post.send(shard, Envelope::Recovered(process, fields));
    }

    /// Tells all shards that a process of another node is silent, and may be gone.
    pub fn silent(&self, node: u16, incarnation: u32) {
        for shard in 0..self.post.shards() {
            self.post.send(shard, Envelope::Silent(node, incarnation));
        }
    }

    /// Tells all shards that a process of another node is gone.
    pub fn departed(&self, node: u16, incarnation: u32) {
        for shard in 0..self.post.shards() {
            self.post.send(shard, Envelope::Departed(node, incarnation));
        }
    }

    /// Gives a request of BOSH to the shard of its session; one that opens a session to the shard
    /// whose turn it is.
    pub fn post(&self, posted: BoshRequest) {
        self.post.request(posted, self.next.fetch_add(1, Ordering::Relaxed));
    }

    /// Returns whether there is a session of BOSH with this id, or may be one on another node.
    pub fn knows(&self, sid: u128) -> bool {
        self.post.sids.shard_for(sid, self.post.shards()).is_some()
    }

    /// Tells the shard of a session that the connection of one of its requests broke before the
    /// response.
    pub fn request_is_gone(&self, sid: u128) {
        if let Some(shard) = self.post.sids.shard_for(sid, self.post.shards()) {
            self.post.send(shard, Envelope::BoshGone(sid));
        }
    }

    /// Returns the counts of the shards. Shards that don't answer within a second are left out;
    /// until then this blocks.
    pub fn census(&self) -> ShardCensus {
        self.count(true)
    }

    /// Returns the counts without those for which each session has to be visited:
    /// [`ShardCensus::details`].
    pub fn counts(&self) -> ShardCensus {
        self.count(false)
    }

    /// Returns the counts of each shard, without looking at each session and without the counts
    /// that all shards share; `None` for a shard that doesn't answer within a second. Until then
    /// this blocks.
    pub fn counts_of_each(&self) -> Vec<Option<ShardCensus>> {
        let alone = |_| Arc::new(Mutex::new(ShardCensus::default()));
        let counted: Vec<_> = (0..self.post.shards()).map(alone).collect();
        let mut left = counted.iter();
        self.ask_all(|done| Envelope::Count(left.next().cloned().unwrap_or_default(), done));
        let census =
            |counted: &Arc<Mutex<ShardCensus>>| Some(lock(counted).clone()).filter(|one| one.coverage.answered > 0);
        counted.iter().map(census).collect()
    }

    /// Returns all streams with other servers and components, by their names. Shards that don't
    /// answer within a second are left out; until then this blocks.
    pub fn servers(&self) -> Vec<StreamReport> {
        let all = Arc::new(Mutex::new(Vec::new()));
        self.ask_all(|done| Envelope::Servers(all.clone(), done));
        let mut all = lock(&all).clone();
        all.sort();
        all
    }

    /// Ends the streams with a domain or component; with `locals` only those of these domains of
    /// ours. Returns the number of streams that were ended. It blocks as [`Door::servers`] does.
    pub fn close_servers(&self, remote: &str, locals: Option<Vec<String>>) -> usize {
        let closing = Arc::new(Closing { remote: remote.to_owned(), locals, closed: AtomicUsize::new(0) });
        self.ask_all(|done| Envelope::CloseServers(closing.clone(), done));
        closing.closed.load(Ordering::Relaxed)
    }

    /// Sends all shards an envelope, and waits for at most a second until they have processed it.
    fn ask_all(&self, envelope: impl FnMut(SyncSender<()>) -> Envelope<SystemSocket>) {
        self.ask_all_within(Duration::from_secs(1), envelope);
    }

    pub(super) fn ask_all_within(
        &self,
        patience: Duration,
        mut envelope: impl FnMut(SyncSender<()>) -> Envelope<SystemSocket>,
    ) {
        let shards = self.post.shards();
        let (done, answers) = sync_channel(shards);
        for shard in 0..shards {
            self.post.send(shard, envelope(done.clone()));
        }
        let deadline = Instant::now() + patience;
        for _ in 0..shards {
            if answers.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_err() {
                break;
            }
        }
    }

    fn count(&self, is_detailed: bool) -> ShardCensus {
        let coverage = Coverage { shards: self.post.shards(), ..Coverage::default() };
        let logins = LoginCensus { tally: self.gate.tally(), ..LoginCensus::default() };
        let details = is_detailed.then(CensusDetails::default);
        let census = ShardCensus { coverage, details, logins, ..ShardCensus::default() };
        let census = Arc::new(Mutex::new(census));
        self.ask_all(|done| Envelope::Count(census.clone(), done));
        lock(&census).clone()
    }
}
