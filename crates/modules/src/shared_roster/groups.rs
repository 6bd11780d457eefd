//! The groups of a domain as the operator writes them, and who sees whom by them.
//!
//! A group is a line: `Sales: alice@example.org, bob@example.org -> Sales, Support`. After the
//! colon are its members, after the arrow the groups whose members have them as contacts; without
//! an arrow these are the members themselves. `@all@` stands for every account of the domain,
//! `@online@` for every account that is online.

use rookery_base::Map;
use std::collections::{BTreeMap, BTreeSet};

use rookery_jid::{Jid, JidRef};
use rookery_store::Subscription;

/// The groups of one domain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RosterGroups {
    domain: String,
    groups: Vec<RosterGroup>,
    /// The groups that name an account, by account.
    by_member: Map<Jid, Vec<usize>>,
    /// The groups of all accounts, online or not.
    of_all: Vec<usize>,
}

/// A group as configured by an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RosterGroup {
    name: String,
    members: BTreeSet<Jid>,
    all: bool,
    online: bool,
    /// The groups whose members see this one, by number.
    shown_to: BTreeSet<usize>,
}

/// Some accounts of a domain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupMembers<'g> {
    /// The accounts that are named.
    pub named: BTreeSet<&'g Jid>,
    /// True if every account of the domain belongs to them.
    pub everybody: bool,
}

impl RosterGroups {
    /// Reads the groups of a domain. The error tells an operator what is wrong with a line.
    pub fn read(domain: &str, lines: &[String]) -> Result<Self, String> {
        let lines = lines.iter().map(|line| GroupLine::read(line)).collect::<Result<Vec<_>, _>>()?;
        let numbers: BTreeMap<&str, usize> = lines.iter().enumerate().map(|(at, line)| (line.name, at)).collect();
        if numbers.len() < lines.len() {
            return Err("two groups have the same name".to_owned());
        }
        let mut all = Self { domain: domain.to_owned(), ..Self::default() };
        for (at, line) in lines.iter().enumerate() {
            let number = |name: &&str| numbers.get(name).copied().ok_or_else(|| format!("there is no group {name:?}"));
            let mut shown_to = line.shown_to.iter().map(number).collect::<Result<BTreeSet<_>, _>>()?;
            if shown_to.is_empty() {
                shown_to.insert(at);
            }
            let (mut members, mut is_all, mut is_online) = (BTreeSet::new(), false, false);
            for member in &line.members {
                match *member {
                    ALL => is_all = true,
                    ONLINE => is_online = true,
                    member => {
                        let jid =
                            Jid::parse(member).map_err(|error| format!("{member:?} isn't an address: {error}"))?;
                        members.insert(jid.to_bare());
                    }
                }
            }
            for member in &members {
                all.by_member.entry(member.clone()).or_default().push(at);
            }
            if is_all || is_online {
                all.of_all.push(at);
            }
            let name = line.name.to_owned();
            all.groups.push(RosterGroup { name, members, all: is_all, online: is_online, shown_to });
        }
        Ok(all)
    }

    /// Adds groups from a source of logins: their members see each other. If a name is taken, the
    /// operator's group has it.
    pub fn add(&mut self, groups: &[rookery_hub::Group]) {
        for group in groups {
            if self.groups.iter().any(|known| known.name == group.name) {
                continue;
            }
            let at = self.groups.len();
            for member in &group.members {
                self.by_member.entry(member.clone()).or_default().push(at);
            }
            let (name, members) = (group.name.clone(), group.members.clone());
            self.groups.push(RosterGroup { name, members, all: false, online: false, shown_to: BTreeSet::from([at]) });
        }
    }

    /// Returns whether there are no groups at all, so that rosters are as the store has them.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns whether any group contains all accounts of the domain.
    pub fn need_all(&self) -> bool {
        self.groups.iter().any(|group| group.all)
    }

    /// Returns whether any group contains all online accounts.
    pub fn need_online(&self) -> bool {
        self.groups.iter().any(|group| group.online)
    }

    /// Returns a key that is equal for accounts that see, and are seen by, the same groups.
    pub fn key(&self, account: JidRef<'_>) -> Vec<usize> {
        self.groups_of(account)
    }

    /// Returns the subscription between two accounts that groups make, seen from the first.
    pub fn relation(&self, owner: JidRef<'_>, contact: JidRef<'_>) -> Subscription {
        self.relation_of(&self.groups_of(owner), contact)
    }

    /// Returns the subscription that groups make between any account with a
    /// [key](RosterGroups::key) and a contact, seen from the account.
    pub fn relation_of(&self, mine: &[usize], contact: JidRef<'_>) -> Subscription {
        let theirs = self.groups_of(contact);
        Subscription::new(self.shows(&theirs, mine), self.shows(mine, &theirs))
    }

    /// Returns the accounts that see the presence of those with a key, which they may include.
    pub fn watchers(&self, mine: &[usize]) -> GroupMembers<'_> {
        let seen_by: BTreeSet<usize> = self.of(mine).flat_map(|group| &group.shown_to).copied().collect();
        self.members(seen_by)
    }

    /// Returns the accounts whose presence those with a key see, which they may include.
    pub fn watched_by(&self, mine: &[usize]) -> GroupMembers<'_> {
        self.members(self.seen_by(mine))
    }

    /// Returns the groups that the accounts with a key see, each with its named members, and
    /// whether all accounts, or all online ones, belong to it.
    pub fn shown_groups(&self, mine: &[usize]) -> impl Iterator<Item = (&str, &BTreeSet<Jid>, bool, bool)> {
        let seen = self.seen_by(mine).into_iter().filter_map(|at| self.groups.get(at));
        seen.map(|group| (group.name.as_str(), &group.members, group.all, group.online))
    }

    fn seen_by(&self, mine: &[usize]) -> BTreeSet<usize> {
        let groups = self.groups.iter().enumerate();
        groups.filter(|(_, group)| mine.iter().any(|at| group.shown_to.contains(at))).map(|(at, _)| at).collect()
    }

    fn members(&self, groups: BTreeSet<usize>) -> GroupMembers<'_> {
        let mut members = GroupMembers::default();
        for group in groups.into_iter().filter_map(|at| self.groups.get(at)) {
            members.everybody |= group.all || group.online;
            members.named.extend(&group.members);
        }
        members
    }

    fn shows(&self, whose: &[usize], to: &[usize]) -> bool {
        self.of(whose).any(|group| to.iter().any(|at| group.shown_to.contains(at)))
    }

    fn of(&self, groups: &[usize]) -> impl Iterator<Item = &RosterGroup> {
        groups.iter().filter_map(|&at| self.groups.get(at))
    }

    fn groups_of(&self, account: JidRef<'_>) -> Vec<usize> {
        let named = self.by_member.get(account.bare_str()).map(Vec::as_slice).unwrap_or_default();
        let is_here = account.domain() == self.domain && account.local().is_some();
        let of_all = if is_here { self.of_all.as_slice() } else { &[] };
        named.iter().chain(of_all).copied().collect()
    }
}

/// Checks a line by itself; the error says what is wrong with it.
pub(crate) fn check(line: &str) -> Result<(), String> {
    let line = GroupLine::read(line)?;
    let mut members = line.members.iter().filter(|member| ![ALL, ONLINE].contains(*member));
    members.try_for_each(|member| match Jid::parse(member) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{member:?} isn't an address: {error}")),
    })
}

struct GroupLine<'l> {
    name: &'l str,
    members: Vec<&'l str>,
    shown_to: Vec<&'l str>,
}

impl<'l> GroupLine<'l> {
    fn read(line: &'l str) -> Result<Self, String> {
        let (head, shown_to) = line.rsplit_once("->").unwrap_or((line, ""));
        let (name, members) = head.split_once(':').ok_or_else(|| {
            format!(
                "{line:?} isn't a group; write e.g. \"Sales: alice@example.org, bob@example.org -> Sales, Support\""
            )
        })?;
        let name = name.trim();
        if name.is_empty() {
            return Err(format!("the group {line:?} has no name"));
        }
        Ok(Self { name, members: words(members), shown_to: words(shown_to) })
    }
}

fn words(text: &str) -> Vec<&str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect()
}

const ALL: &str = "@all@";
const ONLINE: &str = "@online@";

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(lines: &[&str]) -> RosterGroups {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        RosterGroups::read("x.example", &lines).expect("groups")
    }

    fn jid(name: &str) -> Jid {
        Jid::parse(&format!("{name}@x.example")).unwrap()
    }

    fn relation(groups: &RosterGroups, owner: &str, contact: &str) -> &'static str {
        groups.relation(jid(owner).as_ref(), jid(contact).as_ref()).as_str()
    }

    #[test]
    fn members_of_a_group_see_each_other() {
        let groups = groups(&["Sales: a@x.example, b@x.example/r", "Empty:"]);
        assert_eq!(relation(&groups, "a", "b"), "both");
        assert_eq!(relation(&groups, "a", "c"), "none");
        assert_eq!(groups.watchers(&groups.key(jid("a").as_ref())).named, BTreeSet::from([&jid("a"), &jid("b")]));
    }

    #[test]
    fn groups_from_a_source_of_logins_are_added() {
        let mut groups = groups(&["Sales: a@x.example"]);
        let of = |name: &str, members: &[&str]| rookery_hub::Group {
            name: name.into(),
            members: members.iter().map(|name| jid(name)).collect(),
        };
        groups.add(&[of("Sales", &["a", "b"]), of("Support", &["a", "c"]), of("Empty", &[])]);
        assert_eq!(relation(&groups, "a", "b"), "none", "the operator has a group of that name");
        assert_eq!((relation(&groups, "a", "c"), relation(&groups, "c", "a")), ("both", "both"));
    }

    #[test]
    fn a_group_is_shown_to_others() {
        let groups = groups(&[
            "Support: s@x.example -> Support, Sales",
            "Sales: a@x.example, b@x.example -> Bosses",
            "Bosses: c@x.example",
        ]);
        assert_eq!(relation(&groups, "a", "s"), "to");
        assert_eq!(relation(&groups, "s", "a"), "from");
        assert_eq!(relation(&groups, "a", "b"), "none");
        assert_eq!(relation(&groups, "c", "a"), "to");
        let shown: Vec<_> = groups.shown_groups(&groups.key(jid("a").as_ref())).map(|(name, ..)| name).collect();
        assert_eq!(shown, ["Support"]);
        assert!(groups.watched_by(&groups.key(jid("nobody").as_ref())).named.is_empty());
    }

    #[test]
    fn everybody_means_the_accounts_of_the_domain() {
        let groups = groups(&["Everybody: @all@", "News: news@y.example -> Everybody"]);
        assert_eq!(relation(&groups, "a", "b"), "both");
        assert!(
            groups.watchers(&groups.key(jid("a").as_ref())).everybody && groups.need_all() && !groups.need_online()
        );
        let news = Jid::parse("news@y.example").unwrap();
        assert_eq!(groups.relation(jid("a").as_ref(), news.as_ref()), Subscription::To);
        assert_eq!(groups.relation(news.as_ref(), jid("a").as_ref()), Subscription::From);
    }

    #[test]
    fn each_fault_of_a_group_is_reported() {
        for (lines, part) in [
            (&["Sales"][..], "isn't a group"),
            (&[": a@x.example"], "has no name"),
            (&["Sales: @"], "isn't an address"),
            (&["Sales: a@x.example -> Support"], "there is no group \"Support\""),
            (&["Sales:", "Sales:"], "the same name"),
        ] {
            let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            let error = RosterGroups::read("x.example", &lines).expect_err("no groups");
            assert!(error.contains(part), "{error}");
        }
    }
}
