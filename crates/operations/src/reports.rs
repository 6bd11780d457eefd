//! Abuse reports (XEP-0377): the operators of a domain see them in a list until they have settled
//! them.
//!
//! # Invariants
//!
//! * A domain has at most [`MOST`]. A further one replaces the oldest of the account with the most
//!   reports, so no account's reports displace those of others.
//! * A report about an account of this server is removed with the account: the next account of that
//!   name isn't affected. If a reporter is removed, the report loses the name.

use std::collections::BTreeMap;

use rookery_hub::{Hooks, World};
use rookery_jid::{Jid, JidRef};
use rookery_store::{Pending, Stores};

use crate::rights;

/// A user's report about another one (XEP-0377), waiting for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbuseReport {
    /// Its name in the list of its domain; names sort by time.
    pub id: String,
    /// The time of the report, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The reporter; `None` if that account was removed since.
    pub by: Option<Jid>,
    /// The address that it is about: an account, a domain, or an occupant of a room.
    pub about: Jid,
    /// The reason, as XEP-0377 §3.1 names reasons: `urn:xmpp:reporting:spam` or
    /// `urn:xmpp:reporting:abuse`.
    pub reason: String,
    /// The reporter's text; empty if there is none.
    pub text: String,
}

impl AbuseReport {
    /// Returns a new report, with texts cut if necessary. `unix_ms` is in milliseconds since 1970;
    /// `serial` distinguishes reports of the same moment.
    pub fn new(unix_ms: u64, serial: &str, by: Jid, about: Jid, reason: &str, text: &str) -> Self {
        let id = format!("{unix_ms:016}-{serial}");
        let reason = reason.chars().filter(|char| !char.is_control()).take(MAX_REASON).collect();
        let text = text.trim().chars().take(MAX_TEXT).collect();
        Self { id, unix_ms, by: Some(by), about, reason, text }
    }

    /// Returns the reason in a word or two, if it is one of the standard's.
    pub fn reason_in_words(&self) -> &str {
        self.reason.strip_prefix("urn:xmpp:reporting:").unwrap_or(&self.reason)
    }

    fn write(&self) -> Vec<u8> {
        let Self { unix_ms, by, about, reason, text, .. } = self;
        let by = by.as_ref().map_or("", Jid::as_str);
        format!("{unix_ms}\t{by}\t{about}\t{reason}\t{text}").into_bytes()
    }

    fn read(id: String, line: &[u8]) -> Option<Self> {
        let line = String::from_utf8_lossy(line);
        let mut fields = line.splitn(5, '\t');
        let [unix_ms, by, about, reason, text] = std::array::from_fn(|_| fields.next().unwrap_or_default());
        Some(Self {
            id,
            unix_ms: unix_ms.parse().ok()?,
            by: Jid::parse(by).ok(),
            about: Jid::parse(about).ok()?,
            reason: reason.to_owned(),
            text: text.to_owned(),
        })
    }
}

/// Stores a report for the operators of a domain.
pub fn keep(stores: &Stores, domain: &str, report: &AbuseReport) -> Pending<()> {
    let (stores, domain, report) = (stores.clone(), domain.to_owned(), report.clone());
    Box::pin(async move {
        let mut kept = list(&stores, &domain).await?;
        kept.push(report.clone());
        while let Some(id) = report_to_drop(&kept) {
            stores.meta.remove_entry(&key(&domain), &id).await?;
            kept.retain(|kept| kept.id != id);
        }
        match kept.contains(&report) {
            true => stores.meta.put_entry(&key(&domain), &report.id, report.write()).await,
            false => Ok(()),
        }
    })
}

/// Returns the reports of a domain, oldest first.
pub fn list(stores: &Stores, domain: &str) -> Pending<Vec<AbuseReport>> {
    let kept = stores.meta.entries(&key(domain));
    Box::pin(async move {
        let kept = kept.await?.into_iter();
        Ok(kept.filter_map(|(id, line)| AbuseReport::read(id, &line)).collect())
    })
}

/// Removes a report that the operators have settled. Returns `false` if there was none of this
/// name.
pub fn dismiss(stores: &Stores, domain: &str, id: &str) -> Pending<bool> {
    stores.meta.remove_entry(&key(domain), id)
}

/// Removes a domain's reports about an account or another domain, and returns their number.
pub fn settle(stores: &Stores, domain: &str, about: JidRef<'_>) -> Pending<usize> {
    let (stores, domain, about) = (stores.clone(), domain.to_owned(), about.bare().to_jid());
    Box::pin(async move {
        let mut settled = 0;
        for report in list(&stores, &domain).await? {
            if report.about.bare() == about.as_ref() && dismiss(&stores, &domain, &report.id).await? {
                settled += 1;
            }
        }
        Ok(settled)
    })
}

/// Removes a deleted account from the reports of these domains: those about it are deleted, and its
/// own become anonymous.
pub fn forget(stores: &Stores, domains: &[String], account: JidRef<'_>) -> Pending<()> {
    let (stores, domains, account) = (stores.clone(), domains.to_vec(), account.bare().to_jid());
    Box::pin(async move {
        for domain in domains {
            settle(&stores, &domain, account.as_ref()).await?;
            for report in list(&stores, &domain).await? {
                if report.by.as_ref() == Some(&account) {
                    let nameless = AbuseReport { by: None, ..report };
                    stores.meta.put_entry(&key(&domain), &nameless.id, nameless.write()).await?;
                }
            }
        }
        Ok(())
    })
}

/// The reason of a report that isn't about abuse: an account that waits for approval.
pub const APPROVAL: &str = "approval";

/// Reacts to removed accounts.
pub(crate) fn install(hooks: &mut Hooks<'_>) {
    hooks.account_removed(removed);
}

fn removed(world: &mut World, account: JidRef<'_>) {
    let forgotten = forget(&world.stores, &rights::domains(world), account);
    let account = account.to_jid();
    world.wait(forgotten, move |world, forgotten| {
        if let Err(error) = forgotten {
            world.store_failed("removing an account from reports of abuse", &account, &error);
        }
    });
}

/// Returns the name of the report to delete, if there are too many: the oldest of the account with
/// the most reports.
fn report_to_drop(kept: &[AbuseReport]) -> Option<String> {
    if kept.len() <= MOST {
        return None;
    }
    let mut counts: BTreeMap<Option<&Jid>, usize> = BTreeMap::new();
    kept.iter().for_each(|report| *counts.entry(report.by.as_ref()).or_default() += 1);
    let (busiest, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    let oldest = kept.iter().filter(|report| report.by.as_ref() == busiest).map(|report| &report.id).min();
    oldest.cloned()
}

/// Returns the name of a domain's list in the store.
fn key(domain: &str) -> String {
    format!("reports/{domain}")
}

/// The most reports of a domain.
pub const MOST: usize = 500;
/// The most characters of a reporter's text.
pub const MAX_TEXT: usize = 2000;
/// The most characters of a reason.
const MAX_REASON: usize = 100;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rookery_store::memory::Memory;
    use rookery_store::wait;

    use super::*;

    fn jid(text: &str) -> Jid {
        Jid::parse(text).unwrap()
    }

    fn report(at: u64, by: &str, about: &str) -> AbuseReport {
        AbuseReport::new(at, "x", jid(by), jid(about), "urn:xmpp:reporting:spam", " buy\tnow\nor never ")
    }

    fn list_texts(stores: &Stores) -> Vec<(u64, Option<String>, String)> {
        let reports = wait(list(stores, "a.example")).unwrap();
        reports.iter().map(|of| (of.unix_ms, of.by.as_ref().map(Jid::to_string), of.about.to_string())).collect()
    }

    #[test]
    fn a_report_stays_as_it_was_made_until_it_is_dismissed() {
        let stores = Stores::of(Arc::new(Memory::default()));
        let made = report(7, "alice@a.example", "mallory@b.example");
        wait(keep(&stores, "a.example", &made)).unwrap();
        assert_eq!(wait(list(&stores, "a.example")).unwrap(), std::slice::from_ref(&made));
        assert_eq!((made.text.as_str(), made.reason_in_words()), ("buy\tnow\nor never", "spam"));
        assert_eq!(wait(list(&stores, "b.example")).unwrap(), []);
        assert_eq!(wait(dismiss(&stores, "a.example", &made.id)), Ok(true));
        assert_eq!(wait(dismiss(&stores, "a.example", &made.id)), Ok(false));
    }

    #[test]
    fn the_busiest_reporter_displaces_only_their_own_reports() {
        let stores = Stores::of(Arc::new(Memory::default()));
        wait(keep(&stores, "a.example", &report(1, "alice@a.example", "mallory@b.example"))).unwrap();
        for at in 0..MOST as u64 + 20 {
            wait(keep(&stores, "a.example", &report(10 + at, "eve@a.example", "bob@a.example"))).unwrap();
        }
        let listed = list_texts(&stores);
        assert_eq!(listed.len(), MOST);
        assert_eq!(listed[0].0, 1, "the only report of somebody else");
        assert_eq!((listed[1].0, listed[MOST - 1].0), (31, 10 + MOST as u64 + 19), "the newest of the busy one");
    }

    #[test]
    fn an_account_that_is_removed_leaves_reports_without_its_name() {
        let stores = Stores::of(Arc::new(Memory::default()));
        wait(keep(&stores, "a.example", &report(1, "alice@a.example", "bob@a.example"))).unwrap();
        wait(keep(&stores, "a.example", &report(2, "bob@a.example", "mallory@b.example"))).unwrap();
        wait(forget(&stores, &["a.example".into()], jid("bob@a.example").as_ref())).unwrap();
        assert_eq!(list_texts(&stores), [(2, None, "mallory@b.example".to_owned())]);
    }

    #[test]
    fn reports_about_one_address_are_settled_together() {
        let stores = Stores::of(Arc::new(Memory::default()));
        for (at, about) in [(1, "m@b.example"), (2, "m@b.example/phone"), (3, "n@b.example")] {
            wait(keep(&stores, "a.example", &report(at, "alice@a.example", about))).unwrap();
        }
        assert_eq!(wait(settle(&stores, "a.example", jid("m@b.example").as_ref())), Ok(2));
        assert_eq!(list_texts(&stores).len(), 1);
    }
}
