//! Bounds how often somebody may try a password: a state machine without clock and lock.
//!
//! An attempt is only held back by similar ones:
//!
//! * *The pair of place and account.* A place is an address, or the first 64 bits of an IPv6
//!   address. It has 20 attempts at an account, and another every ten minutes. So a device with a
//!   wrong password slows down itself, not the others behind its address.
//! * *The account.* All places together have 100 attempts, and after that as many a day as the
//!   operator allows, from any number of places. Half of them are for the first three attempts of a
//!   place, so that an owner in a new place doesn't compete with those who guess all the time.
//! * *The address.* It has 1000 attempts at any accounts, and another every second. This is against
//!   those who try one password everywhere.
//!
//! If an account has recently logged in from a place, or with an installation of a client (XEP-0388
//! §2.3), none of these three applies to it there: it has a separate rate, so that other people's
//! guesses don't lock its owner out. Tokens (XEP-0484) can't be guessed, so their attempts never
//! wait. Tokens of an issuer (RFC 7628) can't be guessed either, but each invented one costs a
//! signature check: they count for the address only.
//!
//! # Invariants
//!
//! * An attempt counts from its beginning, so that many at once gain nothing; a successful one is
//!   subtracted.
//! * An attempt that is refused because of its account or its address still counts for its pair: a
//!   client that asks again and again can't crowd out one that asks once.
//! * Memory is bounded. When a table is full, the entries with the fewest failures go: a record of
//!   many failures stays until most of the table has as many. Places where an account has logged in
//!   are kept in a separate table, where only logins make entries, at most sixteen for one account.
//! * Only hashes under a secret key are kept, so that nobody can choose which entries collide. The
//!   nodes of a cluster have the same key, and tell each other their counts (`news`).

pub(crate) mod news;
mod rates;

use std::collections::HashMap;
use std::net::IpAddr;

use rookery_base::AddressHash;
use rookery_hub::household;
use rookery_observe::{Bound, Most, Per, Unit};

use news::{AttemptNews, GatheredAttempts};
use rates::{ADDRESS, ANONYMOUS, AttemptRate, DAY_MS, KNOWN, MOST, PAIR, RateName, RateTable, account_rate};
pub use rates::{AttemptCause, Refused};

/// The circumstances of an attempt.
#[derive(Debug, Clone, Copy)]
pub struct Whence<'a> {
    /// The address that it comes from.
    pub address: IpAddr,
    /// The bare JID that it is for; the account needn't exist.
    pub account: &'a str,
    /// The identifier of the client's installation, if it has told one.
    pub client: Option<&'a str>,
    /// The rates that may hold the attempt back.
    pub counts: CountsAt,
}

/// The rates that hold an attempt back, and for which it counts if it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountsAt {
    /// All of them.
    Everywhere,
    /// The rate of its address: its token can't be guessed, but has to be checked.
    Address,
    /// None: it brings something that can't be guessed, or comes from a network that the operator
    /// trusts.
    Nowhere,
}

/// An attempt under way. If it is dropped, it counts as failed.
#[derive(Debug)]
pub struct LoginAttempt {
    account: u64,
    network: u64,
    client: Option<u64>,
    /// The rates that it is charged to.
    charged: Charged,
}

#[derive(Debug)]
enum Charged {
    Nothing,
    /// A rate of a place that the account is known at.
    KnownPlace(u64),
    /// The rate of an address.
    Address(u64),
    /// The rates of strangers: of the pair, of the account, and of the address if that isn't shared
    /// by the users of a proxy.
    Stranger {
        pair: u64,
        of_account: (u64, AttemptRate),
        address: Option<u64>,
    },
}

/// Counts of attempts since the start, by their outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttemptTally {
    /// Attempts whose password, or other proof, was accepted.
    pub succeeded: u64,
    /// Attempts that were checked and failed.
    pub failed: u64,
    /// Attempts that had to wait, by cause.
    pub delayed: [u64; AttemptCause::ALL.len()],
    /// Attempts that were refused without a check, by cause.
    pub refused: [u64; AttemptCause::ALL.len()],
}

/// The recent attempts, and the places where accounts have logged in.
#[derive(Debug)]
pub struct LoginAttempts {
    hash: AddressHash,
    known: HashMap<u64, Vec<KnownPlace>>,
    of_known: RateTable,
    pairs: RateTable,
    accounts: RateTable,
    addresses: RateTable,
    anonymous: RateTable,
    tally: AttemptTally,
    news: GatheredAttempts,
}

/// A place where an account has logged in.
#[derive(Debug, Clone, Copy)]
struct KnownPlace {
    place: u64,
    last_ms: u64,
}

impl Default for LoginAttempts {
    fn default() -> Self {
        Self::new(AddressHash::of_chance())
    }
}

impl LoginAttempts {
    /// Returns the counts of a process that has seen no attempts. It names accounts and places by
    /// this hash.
    pub fn new(hash: AddressHash) -> Self {
        Self {
            hash,
            known: HashMap::new(),
            of_known: RateTable::default(),
            pairs: RateTable::default(),
            accounts: RateTable::default(),
            addresses: RateTable::default(),
            anonymous: RateTable::default(),
            tally: AttemptTally::default(),
            news: GatheredAttempts::default(),
        }
    }

    /// Begins an attempt; returns it with the milliseconds for which it has to wait. `a_day` is the
    /// number of attempts that an account allows to strangers in a day.
    ///
    /// # Errors
    /// The attempt has no turn.
    pub fn begin(&mut self, whence: Whence<'_>, a_day: u32, now_ms: u64) -> Result<(LoginAttempt, u64), Refused> {
        let account = self.hash.of(whence.account);
        let network = self.network(whence.address);
        // The client's part of the hash includes the account, so that nobody gains by using another
        // account's identifier.
        let client = whence.client.map(|client| self.hash.beside(account, client.as_bytes()));
        let known = client.filter(|client| self.is_known(account, *client, now_ms));
        let known = known.or(Some(network).filter(|network| self.is_known(account, *network, now_ms)));
        // Everybody behind a proxy on this machine has its address, so that it tells nothing.
        let address = Some(network).filter(|_| !whence.address.to_canonical().is_loopback());
        let begun = match known {
            _ if whence.counts == CountsAt::Nowhere => Ok((Charged::Nothing, 0, AttemptCause::Pair)),
            _ if whence.counts == CountsAt::Address => self.begin_at_address(address, now_ms),
            Some(place) => self.begin_known(self.hash.beside(account, &place.to_le_bytes()), now_ms),
            None => {
                let pair = self.hash.beside(account, &network.to_le_bytes());
                self.begin_stranger(account, pair, address, a_day, now_ms)
            }
        };
        let count = |counts: &mut [u64], cause: AttemptCause| {
            counts.get_mut(cause as usize).into_iter().for_each(|count| *count += 1);
        };
        match begun {
            Ok((charged, wait, cause)) => {
                if wait > 0 {
                    count(&mut self.tally.delayed, cause);
                }
                Ok((LoginAttempt { account, network, client, charged }, wait))
            }
            Err(refused) => {
                count(&mut self.tally.refused, refused.cause);
                Err(refused)
            }
        }
    }

    /// Subtracts an attempt that has succeeded, and remembers its place.
    pub fn succeeded(&mut self, attempt: &LoginAttempt, now_ms: u64) {
        self.tally.succeeded += 1;
        self.take_back(attempt, now_ms);
        for place in [Some(attempt.network), attempt.client].into_iter().flatten() {
            if self.remember(attempt.account, place, now_ms) {
                self.news.note_known(attempt.account, place);
            }
        }
    }

    /// Counts an attempt that has failed.
    pub fn failed(&mut self) {
        self.tally.failed += 1;
    }

    /// Subtracts an attempt that has ended without a guess.
    pub fn take_back(&mut self, attempt: &LoginAttempt, now_ms: u64) {
        match attempt.charged {
            Charged::Nothing => {}
            Charged::KnownPlace(key) => self.uncharge(RateName::Known, key, KNOWN, now_ms),
            Charged::Address(key) => self.uncharge(RateName::Address, key, ADDRESS, now_ms),
            Charged::Stranger { pair, of_account, address } => {
                self.uncharge(RateName::Pair, pair, PAIR, now_ms);
                let (account, rate) = of_account;
                self.uncharge(RateName::Account, account, rate, now_ms);
                address.into_iter().for_each(|address| self.uncharge(RateName::Address, address, ADDRESS, now_ms));
            }
        }
    }

    /// Admits a client that proves nothing; returns `false` if too many have come from the address
    /// recently.
    pub fn let_in(&mut self, address: IpAddr, now_ms: u64) -> bool {
        // Everybody behind a proxy on this machine has its address, which therefore says nothing.
        if address.to_canonical().is_loopback() {
            return true;
        }
        let key = self.network(address);
        let has_turn = self.anonymous.turn(key, ANONYMOUS, AttemptCause::Address, now_ms) == Ok(0);
        if has_turn {
            self.charge(RateName::Anonymous, key, ANONYMOUS, now_ms);
        }
        has_turn
    }

    /// Returns the counts of attempts since the start, by their outcome.
    pub fn tally(&self) -> AttemptTally {
        self.tally
    }

    fn begin_known(&mut self, key: u64, now_ms: u64) -> Result<(Charged, u64, AttemptCause), Refused> {
        let wait = self.of_known.turn(key, KNOWN, AttemptCause::Pair, now_ms)?;
        self.charge(RateName::Known, key, KNOWN, now_ms);
        Ok((Charged::KnownPlace(key), wait, AttemptCause::Pair))
    }

    fn begin_at_address(&mut self, address: Option<u64>, now_ms: u64) -> Result<(Charged, u64, AttemptCause), Refused> {
        let Some(key) = address else { return Ok((Charged::Nothing, 0, AttemptCause::Address)) };
        let wait = self.addresses.turn(key, ADDRESS, AttemptCause::Address, now_ms)?;
        self.charge(RateName::Address, key, ADDRESS, now_ms);
        Ok((Charged::Address(key), wait, AttemptCause::Address))
    }

    fn begin_stranger(
        &mut self,
        account: u64,
        pair: u64,
        address: Option<u64>,
        a_day: u32,
        now_ms: u64,
    ) -> Result<(Charged, u64, AttemptCause), Refused> {
        let rate = account_rate(a_day);
        // Half of the account's attempts are for places that have hardly tried: an owner in a new
        // place doesn't compete with those who guess all the time.
        let account = self.hash.beside(account, &[u8::from(self.pairs.level(pair, PAIR, now_ms) < FIRST)]);
        let of_pair = self.pairs.turn(pair, PAIR, AttemptCause::Pair, now_ms)?;
        self.charge(RateName::Pair, pair, PAIR, now_ms);
        let of_account = self.accounts.turn(account, rate, AttemptCause::Account, now_ms)?;
        let of_address = match address {
            Some(address) => self.addresses.turn(address, ADDRESS, AttemptCause::Address, now_ms)?,
            None => 0,
        };
        self.charge(RateName::Account, account, rate, now_ms);
        address.into_iter().for_each(|address| self.charge(RateName::Address, address, ADDRESS, now_ms));
        let waits =
            [(of_pair, AttemptCause::Pair), (of_account, AttemptCause::Account), (of_address, AttemptCause::Address)];
        let (wait, cause) = waits.into_iter().max_by_key(|(wait, _)| *wait).unwrap_or((0, AttemptCause::Pair));
        Ok((Charged::Stranger { pair, of_account: (account, rate), address }, wait, cause))
    }

    fn is_known(&self, account: u64, place: u64, now_ms: u64) -> bool {
        let is_it = |known: &KnownPlace| known.place == place && now_ms.saturating_sub(known.last_ms) < KNOWN_MS;
        self.known.get(&account).is_some_and(|places| places.iter().any(is_it))
    }

    /// Notes that an account has logged in from a place. Returns whether others should hear of it:
    /// once a day.
    fn remember(&mut self, account: u64, place: u64, now_ms: u64) -> bool {
        if self.known.len() >= MOST_KNOWN && !self.known.contains_key(&account) {
            let newest = |places: &[KnownPlace]| places.iter().map(|known| known.last_ms).max().unwrap_or_default();
            let mut ages: Vec<u64> = self.known.values().map(|places| newest(places)).collect();
            let (_, last, _) = ages.select_nth_unstable(MOST_KNOWN / 4);
            let last = *last;
            let mut excess = MOST_KNOWN / 4;
            self.known.retain(|_, places| {
                let goes = excess > 0 && newest(places) <= last;
                excess -= usize::from(goes);
                !goes
            });
        }
        let places = self.known.entry(account).or_default();
        if let Some(known) = places.iter_mut().find(|known| known.place == place) {
            let is_first = known.last_ms / DAY_MS != now_ms / DAY_MS;
            known.last_ms = now_ms;
            return is_first;
        }
        if places.len() >= MOST_PLACES {
            let oldest = places.iter().map(|known| known.last_ms).min();
            let at = places.iter().position(|known| Some(known.last_ms) == oldest).unwrap_or_default();
            places.swap_remove(at);
        }
        places.push(KnownPlace { place, last_ms: now_ms });
        true
    }

    /// Begins to collect the changes for other nodes.
    pub(crate) fn gather_news(&mut self) {
        self.news.is_told = true;
    }

    /// Takes the changes for other nodes.
    pub(crate) fn take_news(&mut self) -> AttemptNews {
        let rates = std::mem::take(&mut self.news.rates);
        let rates = rates.into_iter().map(|((name, key), times)| (name, key, times)).collect();
        AttemptNews { rates, known: std::mem::take(&mut self.news.known) }
    }

    /// Applies the changes that another node reports. `a_day` is the number of attempts that an
    /// account allows to strangers in a day.
    pub(crate) fn hear(&mut self, news: &AttemptNews, a_day: u32, now_ms: u64) {
        for (name, key, times) in news.rates.iter().take(news::MOST_TOLD) {
            self.table(*name).0.add(*key, name.rate(a_day), *times, now_ms);
        }
        for (account, place) in news.known.iter().take(news::MOST_TOLD) {
            self.remember(*account, *place, now_ms);
        }
    }

    fn charge(&mut self, name: RateName, key: u64, rate: AttemptRate, now_ms: u64) {
        let (table, news) = self.table(name);
        table.charge(key, rate, now_ms);
        news.note_charge(name, key, 1);
    }

    fn uncharge(&mut self, name: RateName, key: u64, rate: AttemptRate, now_ms: u64) {
        let (table, news) = self.table(name);
        table.take_back(key, rate, now_ms);
        news.note_charge(name, key, -1);
    }

    fn table(&mut self, name: RateName) -> (&mut RateTable, &mut GatheredAttempts) {
        let table = match name {
            RateName::Known => &mut self.of_known,
            RateName::Pair => &mut self.pairs,
            RateName::Account => &mut self.accounts,
            RateName::Address => &mut self.addresses,
            RateName::Anonymous => &mut self.anonymous,
        };
        (table, &mut self.news)
    }

    /// Returns the key of a place: an address, or a network of IPv6.
    fn network(&self, address: IpAddr) -> u64 {
        self.hash.of(&household(address).to_string())
    }
}

/// The bounds of attempts, for the page of limits.
pub const BOUNDS: &[Bound] = &[
    Bound::on(
        "failed logins to an account, from places where it has not logged in before (100 at once)",
        Per::Account,
        Most::Key("login.guesses_per_day"),
        Unit::PerDay,
    )
    .or("<temporary-auth-failure/>, unseen"),
    Bound::on(
        "failed logins to one account, from a place where it has not logged in before (another every ten minutes)",
        Per::Address,
        Most::Fixed(PAIR.burst),
        Unit::Number,
    )
    .or("<temporary-auth-failure/>, unseen"),
    Bound::on(
        "failed logins to one account, from a place where it has logged in within a month (another every five seconds)",
        Per::Address,
        Most::Fixed(KNOWN.burst),
        Unit::Number,
    )
    .or("<temporary-auth-failure/>, unseen"),
    Bound::on(
        "failed logins to accounts that have not logged in there before, and by tokens of an issuer (another every second)",
        Per::Address,
        Most::Fixed(ADDRESS.burst),
        Unit::Number,
    )
    .or("<temporary-auth-failure/>, unseen"),
    Bound::on(
        "logins without a name to an anonymous domain (another every six seconds)",
        Per::Address,
        Most::Fixed(ANONYMOUS.burst),
        Unit::Number,
    )
    .or("<temporary-auth-failure/>"),
    Bound::on(
        "addresses, accounts, and pairs of them, whose failed logins are remembered",
        Per::Server,
        Most::Fixed(MOST as u64),
        Unit::Number,
    )
    .or("those with the fewest failures are forgotten"),
    Bound::on(
        "addresses and clients that an account is known to log in from",
        Per::Account,
        Most::Fixed(MOST_PLACES as u64),
        Unit::Number,
    )
    .or("the one not used for longest is forgotten"),
    Bound::on("accounts for which these are remembered", Per::Server, Most::Fixed(MOST_KNOWN as u64), Unit::Number)
        .or("those not used for longest are forgotten"),
];

/// The bounds of the changes that the nodes of a cluster report to each other, for the page of
/// limits.
pub const NEWS_BOUNDS: &[Bound] = &[Bound::on(
    "changes of these that wait for the other nodes of a cluster, for a quarter of a second",
    Per::Server,
    Most::Fixed(news::MOST_TOLD as u64),
    Unit::Number,
)
.or("what is more counts at this node alone")];

/// Attempts that an account allows to strangers in a day, unless the operator says otherwise.
pub const DEFAULT_A_DAY: u32 = 5000;
/// Attempts of a place at an account that count as its first ones.
const FIRST: u64 = 3;
/// The time for which a place is known after a login.
const KNOWN_MS: u64 = 30 * DAY_MS;
/// Accounts whose places are known, and places of each.
const MOST_KNOWN: usize = 200_000;
const MOST_PLACES: usize = 16;

#[cfg(test)]
mod tests;
