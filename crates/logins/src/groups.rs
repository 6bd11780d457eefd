//! The groups of a directory, whose members become each other's contacts. They are read
//! periodically; while the directory can't be reached, the last state holds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ldap3::adapters::{Adapter, EntriesOnly, PagedResults};
use ldap3::{Ldap, Scope, SearchEntry, SearchOptions};
use rookery_base::lock::lock;
use rookery_hub::{Bound, Group, Most, Per, Unit};
use rookery_jid::Jid;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::desk::Away;
use crate::directory::LdapDirectory;

/// The selection of groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedGroups {
    /// The domain of their members' accounts.
    pub domain: String,
    /// The entry below which the groups are.
    pub base: String,
    /// The filter for them, such as `(objectClass=groupOfNames)`.
    pub filter: String,
    /// The attribute with a group's name.
    pub name: String,
    /// The attribute with its members: names of entries, or of users.
    pub members: String,
    /// The attribute of a member's entry with the user's name.
    pub user: String,
    /// The time between two readings.
    pub every: Duration,
}

/// The groups that were read last; `None` before the first reading.
#[derive(Debug, Clone, Default)]
pub struct KnownGroups(Arc<Mutex<Option<Arc<Vec<Group>>>>>);

impl KnownGroups {
    /// Returns the groups that were read last.
    pub fn get(&self) -> Option<Arc<Vec<Group>>> {
        lock(&self.0).clone()
    }

    /// Reads the groups every [`WantedGroups::every`], as long as the result is used.
    pub async fn keep_reading(self, directory: impl AsRef<LdapDirectory>, wanted: WantedGroups) {
        let (mut is_away, directory) = (false, directory.as_ref());
        loop {
            let read = timeout(LONGEST, directory.groups(&wanted)).await;
            let read = read.unwrap_or_else(|_| Err(format!("{directory}: reading the groups takes too long")));
            match read {
                Ok(groups) => {
                    if is_away {
                        info!(directory = %directory, "the groups of a directory can be read again");
                    }
                    is_away = false;
                    // Unchanged groups stay the same value, so that no differences are computed.
                    let mut known = lock(&self.0);
                    if known.as_deref() != Some(&groups) {
                        *known = Some(Arc::new(groups));
                    }
                }
                Err(error) => {
                    if !is_away {
                        warn!(directory = %directory, error, "the groups of a directory can't be read; rosters stay as they are");
                    }
                    is_away = true;
                }
            }
            sleep(if is_away { wanted.every.min(RETRY) } else { wanted.every }).await;
        }
    }
}

impl LdapDirectory {
    /// Reads the groups, with the accounts that are their members.
    ///
    /// # Errors
    /// The reason why they can't be read, as a text.
    pub async fn groups(&self, wanted: &WantedGroups) -> Result<Vec<Group>, Away> {
        let mut ldap = self.connect().await?;
        self.bind(&mut ldap).await?;
        let attributes = vec![wanted.name.clone(), wanted.members.clone()];
        let entries = self.all(&mut ldap, &wanted.base, &wanted.filter, attributes, MOST_GROUPS).await?;
        let (mut groups, mut known, mut total) = (BTreeMap::new(), BTreeMap::new(), 0);
        for entry in entries {
            let Some(name) = values(&entry, &wanted.name).first().cloned() else { continue };
            let mut members = BTreeSet::new();
            for member in self.members(&mut ldap, &entry, &wanted.members, MOST_MEMBERS - total).await? {
                total += 1;
                members.extend(self.user(&mut ldap, wanted, &member, &mut known).await?);
            }
            groups.insert(name.clone(), Group { name, members });
        }
        // The connection isn't needed any more: a failed unbind doesn't matter.
        drop(ldap.unbind().await);
        Ok(groups.into_values().collect())
    }

    /// Returns all members of a group. A directory may return only a part of them at a time (Active
    /// Directory does so above 1500; MS-ADTS §3.1.1.3.1.3.3).
    async fn members(
        &self,
        ldap: &mut Ldap,
        entry: &SearchEntry,
        attribute: &str,
        most: usize,
    ) -> Result<Vec<String>, Away> {
        let (mut members, mut last) = part(entry, attribute);
        while let Some(more) = last {
            let Some(from) = more.checked_add(1).filter(|from| *from == members.len()) else {
                return Err(format!("{self}: the members of {} arrive unsorted", entry.dn));
            };
            if members.len() > most {
                break;
            }
            let wanted = vec![format!("{attribute};range={from}-*")];
            let found = ldap.search(&entry.dn, Scope::Base, "(objectClass=*)", wanted).await;
            let entries = found.map_err(|error| self.away(&error))?.0;
            let next = entries.into_iter().map(SearchEntry::construct).next();
            let (found, end) = next.map(|next| part(&next, attribute)).unwrap_or_default();
            last = end.filter(|_| !found.is_empty());
            members.extend(found);
        }
        if members.len() > most {
            return Err(format!(
                "{self}: the groups have more than {MOST_MEMBERS} members together; narrow the filter"
            ));
        }
        Ok(members)
    }

    /// Returns all entries of a search, page by page (RFC 2696).
    async fn all(
        &self,
        ldap: &mut Ldap,
        base: &str,
        filter: &str,
        attributes: Vec<String>,
        most: usize,
    ) -> Result<Vec<SearchEntry>, Away> {
        let adapters: Vec<Box<dyn Adapter<'_, String, Vec<String>>>> =
            vec![Box::new(EntriesOnly::new()), Box::new(PagedResults::new(PAGE))];
        // A limit for directories that don't support pages, and would return everything.
        ldap.with_search_options(SearchOptions::new().sizelimit(most as i32 + 1));
        let stream = ldap.streaming_search_with(adapters, base, Scope::Subtree, filter, attributes).await;
        let mut stream = stream.map_err(|error| self.away(&error))?;
        let mut entries = Vec::new();
        while let Some(entry) = stream.next().await.map_err(|error| self.away(&error))? {
            if entries.len() >= most {
                return Err(format!("{self}: there are more than {most} groups; narrow the filter"));
            }
            entries.push(SearchEntry::construct(entry));
        }
        let outcome = stream.finish().await;
        match outcome.rc {
            0 => Ok(entries),
            _ => Err(self.search_error(&outcome)),
        }
    }

    /// Returns the account of a member; `None` if it has none.
    async fn user(
        &self,
        ldap: &mut Ldap,
        wanted: &WantedGroups,
        member: &str,
        known: &mut BTreeMap<String, Option<Jid>>,
    ) -> Result<Option<Jid>, Away> {
        if let Some(known) = known.get(member) {
            return Ok(known.clone());
        }
        let name = match first_of(member) {
            // The value isn't the name of an entry.
            None => Some(member.to_owned()),
            Some((attribute, value)) if attribute.eq_ignore_ascii_case(&wanted.user) => Some(value),
            Some(_) => {
                let found = ldap.search(member, Scope::Base, "(objectClass=*)", vec![wanted.user.clone()]).await;
                // An entry that is gone or hidden from us is left out.
                let entries = found.map_err(|error| self.away(&error))?.0;
                let entry = entries.into_iter().map(SearchEntry::construct).next();
                entry.and_then(|entry| values(&entry, &wanted.user).first().cloned())
            }
        };
        let jid = name.and_then(|name| Jid::new(Some(&name), &wanted.domain, None).ok());
        known.insert(member.to_owned(), jid.clone());
        Ok(jid)
    }
}

/// Returns the values of an attribute, whose name is compared without regard to case.
fn values(entry: &SearchEntry, attribute: &str) -> Vec<String> {
    let found = entry.attrs.iter().find(|(name, _)| name.eq_ignore_ascii_case(attribute));
    found.map(|(_, values)| values.clone()).unwrap_or_default()
}

/// Returns the values of an attribute, or a part of them; for a part, also the number of its last
/// value.
fn part(entry: &SearchEntry, attribute: &str) -> (Vec<String>, Option<usize>) {
    let part_of = |name: &str| {
        let (base, options) = name.split_once(';')?;
        let (_, end) =
            options.strip_prefix("range=").filter(|_| base.eq_ignore_ascii_case(attribute))?.split_once('-')?;
        Some(end.parse().ok())
    };
    let parts = entry.attrs.iter().find_map(|(name, values)| Some((values.clone(), part_of(name)?)));
    parts.unwrap_or_else(|| (values(entry, attribute), None))
}

/// Returns attribute and value of the first part of an entry's name (RFC 4514 §3); `None` if it
/// isn't such a name, or has more than one attribute in that part.
fn first_of(dn: &str) -> Option<(&str, String)> {
    let (attribute, rest) = dn.split_once('=')?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    let attribute = attribute.trim();
    if attribute.is_empty() || !attribute.bytes().all(is_name) {
        return None;
    }
    let (mut value, mut letters) = (Vec::new(), rest.bytes());
    while let Some(letter) = letters.next() {
        match letter {
            b',' | b';' => break,
            b'+' => return None,
            b'\\' => {
                let escaped = letters.next()?;
                let digit = |letter: u8| char::from(letter).to_digit(16).map(|digit| digit as u8);
                match digit(escaped) {
                    Some(high) => value.push(high << 4 | digit(letters.next()?)?),
                    None => value.push(escaped),
                }
            }
            letter => value.push(letter),
        }
    }
    let value = String::from_utf8(value).ok()?;
    Some((attribute, value.trim().to_owned()))
}

/// The most groups of a directory, and their members in total.
const MOST_GROUPS: usize = 2_000;
const MOST_MEMBERS: usize = 200_000;
/// The entries of a page: Active Directory returns a thousand at most.
const PAGE: i32 = 500;
/// The longest time that a reading may take, and the pause after a failed one.
const LONGEST: Duration = Duration::from_secs(120);
const RETRY: Duration = Duration::from_secs(60);

/// The bounds of groups, for the page of limits.
pub const BOUNDS: &[Bound] = &[
    Bound::on("groups of a directory", Per::Domain, Most::Fixed(MOST_GROUPS as u64), Unit::Number)
        .or("rosters stay as they are, and the log says so"),
    Bound::on("members of these together", Per::Domain, Most::Fixed(MOST_MEMBERS as u64), Unit::Number)
        .or("rosters stay as they are, and the log says so"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_members_says_where_the_next_begins() {
        let entry = |attributes: &[(&str, &[&str])]| {
            let owned = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
            let attrs = attributes.iter().map(|(name, values)| ((*name).to_owned(), owned(values))).collect();
            SearchEntry { dn: String::new(), attrs, bin_attrs: Default::default() }
        };
        let all = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
        assert_eq!(part(&entry(&[("Member", &["a", "b"])]), "member"), (all(&["a", "b"]), None));
        let first = entry(&[("member", &[]), ("member;range=0-1", &["a", "b"])]);
        assert_eq!(part(&first, "member"), (all(&["a", "b"]), Some(1)));
        assert_eq!(part(&entry(&[("Member;range=2-*", &["c"])]), "member"), (all(&["c"]), None));
        assert_eq!(part(&entry(&[("other;range=0-1", &["a"])]), "member"), (vec![], None));
    }

    #[test]
    fn the_first_part_of_a_name_is_read() {
        for (dn, first) in [
            ("uid=juliet,ou=people,dc=example", Some(("uid", "juliet"))),
            ("UID = juliet , dc=example", Some(("UID", "juliet"))),
            (r"cn=Capulet\, Juliet,dc=example", Some(("cn", "Capulet, Juliet"))),
            (r"cn=J\c3\bclia,dc=example", Some(("cn", "J\u{fc}lia"))),
            ("uid=a+cn=b,dc=example", None),
            ("juliet", None),
            (r"uid=a\", None),
            ("=a", None),
        ] {
            let first = first.map(|(attribute, value)| (attribute, value.to_owned()));
            assert_eq!(first_of(dn), first, "{dn}");
        }
    }
}
