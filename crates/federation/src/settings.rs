//! The operator's settings for other servers.

use rookery_xml::Limits;

use crate::dialback::Secret;
use crate::inbound::Ours;

/// The proof that another server must give for its domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeerPolicy {
    /// Dialback is enough, and TLS is not needed: only for servers without anything better, since
    /// anyone on the path, or in control of DNS, can pose as any domain.
    Plain,
    /// TLS, and a certificate or dialback.
    Dialback,
    /// TLS and a certificate for the domain.
    Certificate,
}

/// Domains: one by its name, or all below another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// The domain itself, without those below it.
    Domain(String),
    /// All domains below this one, without itself: `*.example.org`.
    Below(String),
}

impl Pattern {
    /// Reads `example.org` or `*.example.org`, the domain prepared as in addresses. Returns `None`
    /// if it is neither.
    pub fn read(text: &str) -> Option<Self> {
        let (rest, is_below) = text.strip_prefix("*.").map_or((text, false), |rest| (rest, true));
        let jid = rookery_jid::Jid::parse(rest).ok().filter(|jid| jid.is_domain())?;
        let domain = jid.domain().to_owned();
        Some(if is_below { Self::Below(domain) } else { Self::Domain(domain) })
    }

    /// Returns whether a domain, prepared as in addresses, matches.
    pub fn matches(&self, domain: &str) -> bool {
        match self {
            Self::Domain(name) => name == domain,
            Self::Below(name) => domain.strip_suffix(name.as_str()).is_some_and(|rest| rest.ends_with('.')),
        }
    }
}

/// Domains that an operator admits or excludes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The domains.
    pub pattern: Pattern,
    /// The operator's reason, for those who are refused by the rule.
    pub reason: Option<Box<str>>,
}

impl Rule {
    /// Reads `example.org` or `*.example.org`, which a reason may follow: `bad.example: it floods
    /// rooms`. Returns `None` if it is neither.
    pub fn read(text: &str) -> Option<Self> {
        let (domains, reason) = text.split_once(": ").map_or((text, None), |(domains, reason)| (domains, Some(reason)));
        let reason = reason.map(str::trim).filter(|reason| !reason.is_empty()).map(Box::from);
        Some(Self { pattern: Pattern::read(domains)?, reason })
    }
}

/// A reason why nothing is communicated between a host of ours and a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objection<'a> {
    /// The host communicates with no other server.
    Closed,
    /// The domain is excluded, for this reason if the operator gives one.
    Denied(Option<&'a str>),
    /// Only others are admitted.
    NotAllowed,
}

impl<'a> Objection<'a> {
    /// Returns the text for those who are refused.
    pub fn text(self) -> &'a str {
        match self {
            Self::Closed => "This domain does not communicate with other servers.",
            Self::Denied(Some(reason)) => reason,
            Self::Denied(None) => "The operator has excluded that server.",
            Self::NotAllowed => "Communication is limited to some servers.",
        }
    }
}

/// A component of this server (XEP-0114).
#[derive(Debug, Clone)]
pub struct ComponentTerms {
    /// Its name, prepared as in addresses.
    pub name: Box<str>,
    /// The secret with which it proves its name.
    pub secret: ComponentSecret,
}

/// A secret that a component and the operator share. It is never shown.
#[derive(Clone)]
pub struct ComponentSecret(Box<[u8]>);

impl ComponentSecret {
    /// Takes the secret as the configuration has it, byte by byte.
    pub fn new(secret: &[u8]) -> Self {
        Self(secret.into())
    }

    /// Returns the secret itself.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for ComponentSecret {
    /// Hides the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ComponentSecret")
    }
}

/// The rules about other servers for some hosts of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// True if these hosts communicate with other servers.
    pub enabled: bool,
    /// The proof that other servers have to give.
    pub policy: PeerPolicy,
    /// Exceptions from that for some servers: the first match counts.
    pub exceptions: Vec<(Pattern, PeerPolicy)>,
    /// If there are any, the only domains to communicate with.
    pub allow: Vec<Rule>,
    /// The domains with which nothing is communicated.
    pub deny: Vec<Rule>,
}

impl Default for Rules {
    /// Returns rules that admit every server with a certificate.
    fn default() -> Self {
        Self {
            enabled: true,
            policy: PeerPolicy::Certificate,
            exceptions: Vec::new(),
            allow: Vec::new(),
            deny: Vec::new(),
        }
    }
}

/// A domain of ours with rules of its own.
#[derive(Debug, Clone)]
pub struct Own {
    /// The domain, its services and components.
    pub hosts: Vec<Box<str>>,
    /// The rules, in place of those for all.
    pub rules: Rules,
}

/// The settings of all streams between servers, and of those of components.
#[derive(Debug, Clone)]
pub struct FederationSettings {
    /// True if there are other servers; otherwise there are only components.
    pub has_others: bool,
    /// The components of this server.
    pub components: Vec<ComponentTerms>,
    /// The rules for hosts of ours without rules of their own.
    pub rules: Rules,
    /// Hosts of ours with rules of their own.
    pub own: Vec<Own>,
    /// True if addresses of this machine and of private networks may be connected to. A stranger
    /// controls the addresses of its domain.
    pub allow_private_addresses: bool,
    /// Domains of ours that have only a self-made certificate.
    pub uncertified: Vec<Box<str>>,
    /// True if DNS may name the certificates of calling servers (RFC 7673): answers that claim to
    /// be validated are believed.
    pub dane: bool,
    /// True if one stream may carry both directions (XEP-0288).
    pub bidi: bool,
    /// The secret of dialback keys.
    pub secret: Secret,
    /// Limits before a peer has proven anything.
    pub limits_before: Limits,
    /// Limits of a stanza afterwards.
    pub limits: Limits,
    /// Milliseconds until an incoming stream must have proven something.
    pub login_ms: u64,
    /// Milliseconds for which a stanza waits for a connection.
    pub patience_ms: u64,
    /// Milliseconds for connecting to one address.
    pub connect_ms: u64,
    /// Milliseconds without a stanza after which a stream of ours is closed.
    pub idle_ms: u64,
    /// Bytes of stanzas that may wait for one domain.
    pub queue_bytes: usize,
    /// Stanzas that may wait for one domain while there is no connection.
    pub queue_stanzas: usize,
    /// Bytes per second that a remote domain may send, 0 for no limit.
    pub bytes_per_second: u64,
    /// Stanzas per second that it may send, 0 for no limit.
    pub stanzas_per_second: u64,
    /// Stanzas per second of a domain to which no user here has written, 0 if all domains are
    /// treated alike.
    pub newcomer_stanzas: u64,
    /// Seconds' worth of either that a domain may send at once.
    pub burst_seconds: u64,
}

impl FederationSettings {
    /// Returns the default settings.
    pub fn new(secret: Secret) -> Self {
        Self {
            has_others: true,
            components: Vec::new(),
            rules: Rules::default(),
            own: Vec::new(),
            allow_private_addresses: false,
            uncertified: Vec::new(),
            dane: false,
            bidi: true,
            secret,
            limits_before: Limits { depth: 8, ..Limits::BEFORE_LOGIN },
            limits: Limits { bytes: STANZA_BYTES, ..Limits::AFTER_LOGIN },
            login_ms: LOGIN_MS,
            patience_ms: PATIENCE_MS,
            connect_ms: 10_000,
            idle_ms: 600_000,
            queue_bytes: QUEUE_BYTES,
            queue_stanzas: QUEUE_STANZAS,
            bytes_per_second: 10 << 20,
            stanzas_per_second: 20_000,
            newcomer_stanzas: 0,
            burst_seconds: 5,
        }
    }

    /// Returns the rules of a host of ours.
    pub fn rules_of(&self, local: &str) -> &Rules {
        let own = self.own.iter().find(|own| own.hosts.iter().any(|host| **host == *local));
        own.map_or(&self.rules, |own| &own.rules)
    }

    /// Returns the proof that a domain needs for a host of ours.
    pub fn policy_for(&self, local: &str, remote: &str) -> PeerPolicy {
        let rules = self.rules_of(local);
        let exception = rules.exceptions.iter().find(|(pattern, _)| pattern.matches(remote));
        exception.map_or(rules.policy, |(_, policy)| *policy)
    }

    /// Returns whether a domain of ours may call another one. If certificates are required, it may
    /// not before it has one itself.
    pub fn may_call(&self, local: &str, remote: &str) -> bool {
        self.policy_for(local, remote) != PeerPolicy::Certificate
            || !self.uncertified.iter().any(|domain| **domain == *local)
    }

    /// Returns the component of this name.
    pub fn component(&self, name: &str) -> Option<&ComponentTerms> {
        self.components.iter().find(|component| *component.name == *name)
    }

    /// Returns whether a host of ours communicates with other servers.
    pub fn federates(&self, local: &str) -> bool {
        self.has_others && self.rules_of(local).enabled
    }

    /// Returns whether a host is one of ours that other servers may know about: they can't
    /// distinguish one that doesn't communicate with them from a nonexistent one.
    pub(crate) fn shows(&self, host: &str, ours: &dyn Ours) -> bool {
        ours.is_ours(host) && self.federates(host)
    }

    /// Returns whether a host of ours and a domain may communicate.
    pub fn admits(&self, local: &str, remote: &str) -> bool {
        self.objection(local, remote).is_none()
    }

    /// Returns why a host of ours and a domain may not communicate; `None` if they may.
    pub fn objection(&self, local: &str, remote: &str) -> Option<Objection<'_>> {
        let Rules { allow, deny, .. } = self.rules_of(local);
        let find = |rules: &'_ [Rule]| rules.iter().position(|rule| rule.pattern.matches(remote));
        if !self.federates(local) {
            return Some(Objection::Closed);
        }
        if let Some(rule) = find(deny).and_then(|at| deny.get(at)) {
            return Some(Objection::Denied(rule.reason.as_deref()));
        }
        (!allow.is_empty() && find(allow).is_none()).then_some(Objection::NotAllowed)
    }
}

pub(crate) const STANZA_BYTES: usize = 512 * 1024;
pub(crate) const LOGIN_MS: u64 = 30_000;
pub(crate) const PATIENCE_MS: u64 = 60_000;
pub(crate) const QUEUE_BYTES: usize = 1024 * 1024;
pub(crate) const QUEUE_STANZAS: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_for_whole_labels() {
        let below = Pattern::read("*.Example.org").unwrap();
        assert!(below.matches("a.example.org") && below.matches("a.b.example.org"));
        assert!(!below.matches("example.org") && !below.matches("badexample.org"));
        assert_eq!(Pattern::read("a@example.org"), None);
        let mut settings = FederationSettings::new(Secret::new(b"secret"));
        let (policy_for, admits) = (
            |settings: &FederationSettings, remote: &str| settings.policy_for("a.example", remote),
            |settings: &FederationSettings, remote: &str| settings.admits("a.example", remote),
        );
        settings.rules.exceptions = vec![(Pattern::read("old.example").unwrap(), PeerPolicy::Plain)];
        assert_eq!(policy_for(&settings, "old.example"), PeerPolicy::Plain);
        assert_eq!(policy_for(&settings, "other.example"), PeerPolicy::Certificate);
        settings.rules.deny = vec![Rule::read("bad.example").unwrap()];
        assert!(admits(&settings, "good.example") && !admits(&settings, "bad.example"));
        settings.rules.allow = vec![Rule::read("*.example").unwrap()];
        assert!(admits(&settings, "good.example") && !admits(&settings, "bad.example"));
        assert!(!admits(&settings, "good.org"));
    }

    #[test]
    fn rules_have_reasons() {
        for (text, domains, reason) in [
            ("bad.example", "bad.example", None),
            ("bad.example: it floods rooms: ask Ann", "bad.example", Some("it floods rooms: ask Ann")),
            ("*.bad.example:  spam ", "*.bad.example", Some("spam")),
            ("bad.example: ", "bad.example", None),
        ] {
            let reason = reason.map(Box::from);
            assert_eq!(Rule::read(text), Some(Rule { pattern: Pattern::read(domains).unwrap(), reason }), "{text}");
        }
        for text in ["", ": spam", "a.example b.example", "bad.example spam", "bad.example:5269", "x@bad.example: spam"]
        {
            assert_eq!(Rule::read(text), None, "{text}");
        }
        let mut settings = FederationSettings::new(Secret::new(b"secret"));
        settings.rules.deny =
            ["*.bad.example: all of them spam", "old.example"].map(|it| Rule::read(it).unwrap()).into();
        settings.rules.allow = ["*.example"].map(|it| Rule::read(it).unwrap()).into();
        let objection = |remote: &str| settings.objection("a.example", remote);
        assert_eq!(objection("x.bad.example"), Some(Objection::Denied(Some("all of them spam"))));
        assert_eq!(objection("old.example"), Some(Objection::Denied(None)));
        assert_eq!((objection("good.example"), objection("good.org")), (None, Some(Objection::NotAllowed)));
        settings.rules.enabled = false;
        assert_eq!(settings.objection("a.example", "good.example"), Some(Objection::Closed));
    }

    #[test]
    fn rules_of_a_domain_stand_in_place_of_those_for_all() {
        let mut settings = FederationSettings::new(Secret::new(b"secret"));
        settings.rules.deny = vec![Rule::read("bad.example").unwrap()];
        let closed = Rules { enabled: false, ..Rules::default() };
        let lax = Rules { policy: PeerPolicy::Dialback, ..Rules::default() };
        settings.own = vec![
            Own { hosts: vec!["closed.example".into(), "rooms.closed.example".into()], rules: closed },
            Own { hosts: vec!["lax.example".into()], rules: lax },
        ];
        assert!(settings.federates("a.example") && settings.federates("lax.example"));
        for local in ["closed.example", "rooms.closed.example"] {
            assert!(!settings.federates(local) && !settings.admits(local, "good.example"));
        }
        assert!(!settings.admits("a.example", "bad.example") && settings.admits("lax.example", "bad.example"));
        assert_eq!(settings.policy_for("a.example", "good.example"), PeerPolicy::Certificate);
        assert_eq!(settings.policy_for("lax.example", "good.example"), PeerPolicy::Dialback);
        settings.has_others = false;
        assert!(!settings.federates("lax.example") && !settings.admits("lax.example", "good.example"));
    }
}
