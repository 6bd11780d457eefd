//! A limit on the rate at which one party may create accounts.
//!
//! There is one table for all shards of the process: a lock is taken once per request to create an
//! account, which is rare and costs milliseconds anyway. Nothing else waits for it. The nodes of a
//! cluster tell each other at once about each turn that a party has taken, and about its outcome,
//! so that all of them refuse the next one.

use rookery_base::Map;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard};

use rookery_base::lock::lock;
use rookery_hub::{Memo, Network, OptionSpec, Options, Value, World};
use rookery_modkit::option;
use rookery_stream::error::{Condition, StanzaError};
use serde::{Deserialize, Serialize};

/// The parties that have created accounts recently. Clones share the table.
#[derive(Debug, Clone, Default)]
pub struct Creations {
    parties: Arc<Mutex<Map<IpAddr, Recent>>>,
}

/// The recent attempts of one party.
#[derive(Debug, Clone, Copy)]
struct Recent {
    /// The end of the wait, in milliseconds since 1970.
    until: u64,
    /// The number of accounts that it has created or is creating: more than one only if several
    /// nodes were asked at the same moment.
    created: u32,
    /// The number of times that a requested name was taken.
    conflicts: u32,
}

/// Tells other nodes about a party's turn.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct CreationNews {
    party: IpAddr,
    /// The domain of the account, whose options apply.
    domain: String,
    step: CreationStep,
}

/// A step of a party that creates an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum CreationStep {
    /// It has taken a turn.
    Begun,
    /// The name was taken; the party may try another one.
    Conflicted,
    /// It has got its turn back.
    GivenBack,
}

impl Memo for CreationNews {
    const NAME: &'static str = "register creation";
    const SINCE: u16 = 2;

    fn open(self, world: &mut World) {
        let Some(options) = world.options(&self.domain, NAME) else { return };
        world.state::<Creations>().hear(self.party, self.step, world.time(), options);
    }
}

/// A party's turn to create an account. If it is dropped, it is used up.
#[derive(Debug)]
pub struct CreationSlot {
    of: Option<(Creations, IpAddr)>,
}

/// The name of the module.
pub(super) const NAME: &str = "register";
/// The option for the time that a party waits.
pub(super) const PER_ADDRESS_SECONDS: OptionSpec = OptionSpec {
    key: "per_address_seconds",
    default: || Value::Number(600),
    doc: "seconds between two accounts created from one address (of IPv6: one /64 network); 0 for no limit",
    check: option::any,
};

/// The option for networks that needn't wait.
pub(super) const TRUSTED_NETWORKS: OptionSpec = OptionSpec {
    key: "trusted_networks",
    default: || Value::List(vec!["127.0.0.0/8".to_owned(), "::1".to_owned()]),
    doc: "networks and addresses without that limit",
    check: |value| option::each(value, |text| text.parse::<Network>().map(|_| ())),
};

/// Returns whether an address is in one of the operator's trusted networks.
pub(super) fn is_trusted(options: &Options, address: IpAddr) -> bool {
    let networks = options.list(TRUSTED_NETWORKS.key).iter();
    networks.filter_map(|text| text.parse::<Network>().ok()).any(|network| network.contains(address))
}

impl Creations {
    /// Returns a turn for an address at this time (milliseconds since 1970), if it has one.
    ///
    /// # Errors
    /// `resource-constraint` of type wait: the address has created an account, or tried too many
    /// taken names, within the time in the options, or the table is full.
    pub fn take(&self, address: IpAddr, now: u64, options: &Options) -> Result<CreationSlot, StanzaError> {
        let window = options.number(PER_ADDRESS_SECONDS.key).saturating_mul(1000);
        if window == 0 {
            return Ok(CreationSlot::without_limit());
        }
        let party = party(address);
        let mut parties = self.parties();
        let recent = recent(&mut parties, party, now, window).ok_or_else(too_soon)?;
        if recent.created > 0 || recent.conflicts >= MAX_CONFLICTS {
            return Err(too_soon());
        }
        recent.created = 1;
        Ok(CreationSlot { of: Some((self.clone(), party)) })
    }

    /// Applies another node's news about a party.
    fn hear(&self, party: IpAddr, step: CreationStep, now: u64, options: &Options) {
        let window = options.number(PER_ADDRESS_SECONDS.key).saturating_mul(1000);
        if window == 0 {
            return;
        }
        let mut parties = self.parties();
        let Some(recent) = recent(&mut parties, self::party(party), now, window) else { return };
        match step {
            CreationStep::Begun => recent.created = recent.created.saturating_add(1),
            CreationStep::Conflicted | CreationStep::GivenBack => recent.take(step),
        }
    }

    fn parties(&self) -> MutexGuard<'_, Map<IpAddr, Recent>> {
        lock(&self.parties)
    }
}

impl Recent {
    /// Applies the outcome of a turn that has failed.
    fn take(&mut self, step: CreationStep) {
        self.created = self.created.saturating_sub(1);
        self.conflicts = self.conflicts.saturating_add(u32::from(step == CreationStep::Conflicted));
    }
}

/// Returns the entry of a party; `None` if the table is full.
fn recent(parties: &mut Map<IpAddr, Recent>, party: IpAddr, now: u64, window: u64) -> Option<&mut Recent> {
    if parties.len() >= MAX_PARTIES {
        parties.retain(|_, recent| recent.until > now);
    }
    if parties.len() >= MAX_PARTIES && !parties.contains_key(&party) {
        return None;
    }
    let fresh = Recent { until: now.saturating_add(window), created: 0, conflicts: 0 };
    let recent = parties.entry(party).or_insert(fresh);
    // An end that is further away than a whole window was set before the clock was set back.
    if recent.until <= now || recent.until > fresh.until {
        *recent = fresh;
    }
    Some(recent)
}

impl CreationSlot {
    /// Returns a turn that costs nothing.
    pub fn without_limit() -> Self {
        Self { of: None }
    }

    /// Ends a turn because the name was taken. The party may try another one, up to a limit.
    pub fn end_in_conflict(self) {
        self.end_with(CreationStep::Conflicted);
    }

    /// Returns a turn: no account was created, through no fault of the party.
    pub fn give_back(self) {
        self.end_with(CreationStep::GivenBack);
    }

    /// Returns the news for other nodes, if the turn counts.
    pub(super) fn news(&self, domain: &str, step: CreationStep) -> Option<CreationNews> {
        let (_, party) = self.of.as_ref()?;
        Some(CreationNews { party: *party, domain: domain.to_owned(), step })
    }

    fn end_with(self, step: CreationStep) {
        let Some((creations, party)) = self.of else { return };
        if let Some(recent) = creations.parties().get_mut(&party) {
            recent.take(step);
        }
    }
}

/// Returns the address that identifies a party: a single IPv4 address, or a /64 network of IPv6,
/// since a household can use any address in one.
fn party(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
    }
}

fn too_soon() -> StanzaError {
    StanzaError::new(Condition::ResourceConstraint)
        .with_text("too many accounts were created from your address; try again later")
}

/// The most parties that are remembered, at some 50 bytes each. If more than that create accounts
/// within one window, it is an attack.
const MAX_PARTIES: usize = 50_000;

/// The most taken names that a party may try in one window.
const MAX_CONFLICTS: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 600_000;

    fn options() -> Options {
        Options::defaults(&[PER_ADDRESS_SECONDS, TRUSTED_NETWORKS])
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_account_per_party_and_window() {
        let (creations, other_shard) = {
            let one = Creations::default();
            (one.clone(), one)
        };
        let now = 1_000_000;
        assert!(creations.take(address("192.0.2.1"), now, &options()).is_ok());
        let error = other_shard.take(address("192.0.2.1"), now + WINDOW - 1, &options()).unwrap_err();
        assert_eq!(error.condition, Condition::ResourceConstraint);
        assert!(creations.take(address("192.0.2.2"), now, &options()).is_ok());
        assert!(creations.take(address("192.0.2.1"), now + WINDOW, &options()).is_ok());
    }

    #[test]
    fn a_household_is_one_party() {
        let party = |text: &str| party(address(text));
        assert_eq!(party("2001:db8::1"), party("2001:db8::ffff:1"));
        assert_ne!(party("2001:db8::1"), party("2001:db8:0:1::1"));
        assert_ne!(party("192.0.2.1"), party("192.0.2.2"));
        assert_eq!(party("192.0.2.1"), party("::ffff:192.0.2.1"));
    }

    #[test]
    fn a_clock_that_is_put_back_locks_nobody_out() {
        let creations = Creations::default();
        assert!(creations.take(address("192.0.2.1"), 10 * WINDOW, &options()).is_ok());
        assert!(creations.take(address("192.0.2.1"), WINDOW, &options()).is_ok());
    }

    #[test]
    fn a_failure_costs_nothing_and_taken_names_a_little() {
        let creations = Creations::default();
        for _ in 0..100 {
            creations.take(address("192.0.2.1"), 0, &options()).unwrap().give_back();
        }
        for _ in 0..MAX_CONFLICTS {
            creations.take(address("192.0.2.1"), 0, &options()).unwrap().end_in_conflict();
        }
        assert!(creations.take(address("192.0.2.1"), 0, &options()).is_err());
        assert!(creations.take(address("192.0.2.1"), WINDOW, &options()).is_ok());
    }

    #[test]
    fn a_turn_taken_at_one_node_counts_at_all_nodes() {
        let (one, other) = (Creations::default(), Creations::default());
        let party = address("192.0.2.1");
        let hear = |creations: &Creations, step| creations.hear(party, step, 0, &options());
        let slot = one.take(party, 0, &options()).unwrap();
        assert_eq!(slot.news("example.org", CreationStep::Begun).unwrap().party, party);
        hear(&other, CreationStep::Begun);
        assert!(other.take(party, 0, &options()).is_err());
        assert!(other.take(party, WINDOW, &options()).is_ok());
        // Two at the same moment, one of which has failed.
        let (one, other) = (Creations::default(), Creations::default());
        let (failed, _kept) = (one.take(party, 0, &options()).unwrap(), other.take(party, 0, &options()).unwrap());
        hear(&one, CreationStep::Begun);
        hear(&other, CreationStep::Begun);
        failed.give_back();
        hear(&other, CreationStep::GivenBack);
        assert!(one.take(party, 0, &options()).is_err() && other.take(party, 0, &options()).is_err());
        // Names are tried at all nodes together.
        let one = Creations::default();
        (0..MAX_CONFLICTS).for_each(|_| {
            hear(&one, CreationStep::Begun);
            hear(&one, CreationStep::Conflicted);
        });
        assert!(one.take(party, 0, &options()).is_err());
        assert!(CreationSlot::without_limit().news("example.org", CreationStep::Begun).is_none());
    }

    #[test]
    fn the_table_is_bounded_and_forgets() {
        let creations = Creations::default();
        for at in 0..MAX_PARTIES as u32 {
            assert!(creations.take(IpAddr::V4(at.into()), 0, &options()).is_ok());
        }
        assert!(creations.take(address("2001:db8::1"), 0, &options()).is_err());
        assert_eq!(creations.parties().len(), MAX_PARTIES);
        assert!(creations.take(address("2001:db8::1"), WINDOW, &options()).is_ok());
        assert_eq!(creations.parties().len(), 1);
    }

    #[test]
    fn without_a_window_nothing_is_limited_or_remembered() {
        let mut options = options();
        options.set(&PER_ADDRESS_SECONDS, Value::Number(0));
        let creations = Creations::default();
        for _ in 0..3 {
            assert!(creations.take(address("192.0.2.1"), 0, &options).is_ok());
        }
        assert!(creations.parties().is_empty());
    }

    #[test]
    fn loopback_is_trusted_by_default() {
        let options = options();
        assert!(is_trusted(&options, address("127.0.0.1")) && is_trusted(&options, address("::1")));
        assert!(!is_trusted(&options, address("192.0.2.1")));
        let check = TRUSTED_NETWORKS.check;
        assert_eq!(check(&(TRUSTED_NETWORKS.default)()), Ok(()));
        assert!(check(&Value::List(vec!["home".into()])).unwrap_err().contains("home"));
    }
}
