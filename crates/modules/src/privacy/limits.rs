//! Bounds the rules of an account.

use rookery_hub::{Iq, World};

use super::rules::PrivacyRules;

/// Returns whether rules are within an account's limits.
pub(crate) fn fit(world: &World, iq: &Iq, rules: &PrivacyRules) -> bool {
    rules.items() as u64 <= most(world, iq, MAX_ITEMS)
        && rules.relative_items() as u64 <= most(world, iq, MAX_RULES)
        && rules.write().is_none_or(|bytes| bytes.len() <= MAX_BYTES)
}

/// Returns the limit that the operator sets for an account.
pub(crate) fn most(world: &World, iq: &Iq, key: &str) -> u64 {
    let options = world.options(iq.to.domain(), NAME);
    options.map_or(0, |options| options.number(key))
}

/// The key below `[modules]`.
pub(crate) const NAME: &str = "privacy";

/// The option for all rules of an account.
pub(super) const MAX_ITEMS: &str = "max_items";

/// The option for rules that name no address.
pub(super) const MAX_RULES: &str = "max_rules";

/// The most bytes of the rules of one account.
pub(super) const MAX_BYTES: usize = 256 * 1024;
