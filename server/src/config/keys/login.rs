//! The keys of a table `[domain."NAME".login]`.

use rookery_logins::DirectoryAddress;
use rookery_logins::directory::USER;
use rookery_logins::web::WebAddress;

use super::super::error::WrongValue;
use super::super::given::GivenValue;
use super::super::{DirectoryGroups, DomainConfig};
use super::{DomainKey, file, list, path_text, put, quote};

/// All keys of the table, in the order of the example.
pub const LOGIN_KEYS: [DomainKey; 27] = [
    DomainKey {
        name: "anonymous",
        doc: "true lets everybody in without a password (SASL ANONYMOUS): each session gets its own account with an\n\
              unguessable name, and nothing of it is stored. The domain can't reach other servers unless its own\n\
              [federation] says so.",
        set: |domain, given| put(&mut domain.login.anonymous, given.switch()),
        show: |domain| domain.login.anonymous.then(|| "true".to_owned()),
        example: "true",
    },
    DomainKey {
        name: "url",
        doc: "An address that checks passwords: it gets {\"user\": …, \"domain\": …, \"password\": …} by POST, and\n\
              responds 200 for yes, 401 or 403 for no; anything else means that it can't tell now. Clients send\n\
              passwords with PLAIN.",
        set: |domain, given| put(&mut domain.login.url, web_address(given).map(Some)),
        show: |domain| domain.login.url.as_ref().map(|url| quote(url.to_string())),
        example: "\"https://login.example.org/check\"",
    },
    DomainKey {
        name: "ldap",
        doc: "A directory that checks passwords instead: \"ldaps://HOST\", or \"ldap://HOST\" with StartTLS.",
        set: |domain, given| put(&mut domain.login.ldap, place(given).map(Some)),
        show: |domain| domain.login.ldap.as_ref().map(|place| quote(place.to_string())),
        example: "\"ldaps://ldap.example.org\"",
    },
    DomainKey {
        name: "start_tls",
        doc: "true encrypts \"ldap://\" with StartTLS even if the directory is on this machine; otherwise it is always\n\
              encrypted.",
        set: |domain, given| put(&mut domain.login.start_tls, given.switch().map(Some)),
        show: |domain| domain.login.start_tls.map(|start_tls| start_tls.to_string()),
        example: "true",
    },
    DomainKey {
        name: "dn",
        doc: "The name of a user's entry; %u stands for the user.",
        set: |domain, given| put(&mut domain.login.dn, with_user(given).map(Some)),
        show: |domain| domain.login.dn.as_ref().map(quote),
        example: "\"uid=%u,ou=people,dc=example,dc=org\"",
    },
    DomainKey {
        name: "base",
        doc: "The entry below which to search for the user's entry, if its name can't be derived.",
        set: |domain, given| put(&mut domain.login.base, given.text().map(|text| Some(text.to_owned()))),
        show: |domain| domain.login.base.as_ref().map(quote),
        example: "\"ou=people,dc=example,dc=org\"",
    },
    DomainKey {
        name: "filter",
        doc: "The filter of that search; %u stands for the user. For Active Directory it is \"(sAMAccountName=%u)\".",
        set: |domain, given| put(&mut domain.login.filter, with_user(given)),
        show: |domain| Some(quote(&domain.login.filter)).filter(|_| domain.login.base.is_some()),
        example: "\"(uid=%u)\"",
    },
    DomainKey {
        name: "bind_dn",
        doc: "The name of this server's own entry, if the directory doesn't allow anonymous searches.",
        set: |domain, given| put(&mut domain.login.bind_dn, given.text().map(|text| Some(text.to_owned()))),
        show: |domain| domain.login.bind_dn.as_ref().map(quote),
        example: "\"cn=rookery,dc=example,dc=org\"",
    },
    DomainKey {
        name: "bind_password_file",
        doc: "A file with its password; relative to this file.",
        set: |domain, given| put(&mut domain.login.bind_password_file, file(given)),
        show: |domain| path_text(&domain.login.bind_password_file),
        example: "\"/etc/rookery/ldap.password\"",
    },
    DomainKey {
        name: "groups_base",
        doc: "The entry below which there are groups, whose members become each other's contacts without asking.",
        set: |domain, given| put(&mut domain.login.groups.base, given.text().map(|text| Some(text.to_owned()))),
        show: |domain| domain.login.groups.base.as_ref().map(quote),
        example: "\"ou=groups,dc=example,dc=org\"",
    },
    DomainKey {
        name: "groups_filter",
        doc: "The filter for them.",
        set: |domain, given| put(&mut domain.login.groups.filter, given.text()),
        show: |domain| of_groups(domain, |groups| quote(&groups.filter)),
        example: "\"(objectClass=groupOfNames)\"",
    },
    DomainKey {
        name: "group_name",
        doc: "The attribute with the name of a group.",
        set: |domain, given| put(&mut domain.login.groups.name, given.text()),
        show: |domain| of_groups(domain, |groups| quote(&groups.name)),
        example: "\"cn\"",
    },
    DomainKey {
        name: "group_members",
        doc: "The attribute with its members: names of entries (\"member\", \"uniqueMember\") or of users (\"memberUid\").",
        set: |domain, given| put(&mut domain.login.groups.members, given.text()),
        show: |domain| of_groups(domain, |groups| quote(&groups.members)),
        example: "\"member\"",
    },
    DomainKey {
        name: "user_attribute",
        doc: "The attribute of a member's entry with the user's name.",
        set: |domain, given| put(&mut domain.login.groups.user, given.text()),
        show: |domain| of_groups(domain, |groups| quote(&groups.user)),
        example: "\"uid\"",
    },
    DomainKey {
        name: "groups_seconds",
        doc: "Seconds between two readings of the groups.",
        set: |domain, given| put(&mut domain.login.groups.seconds, given.number(10..=86_400)),
        show: |domain| of_groups(domain, |groups| groups.seconds.to_string()),
        example: "600",
    },
    DomainKey {
        name: "cache_seconds",
        doc: "Seconds that a yes from `url` or `ldap` stays valid for the same password; 0 asks each time.",
        set: |domain, given| put(&mut domain.login.cache_seconds, given.number(0..=3600)),
        show: |domain| unless_default(domain.login.cache_seconds, 0),
        example: "60",
    },
    DomainKey {
        name: "issuer",
        doc: "An issuer of tokens, by its own name for itself (OpenID Connect, OAuth); its keys are found through\n\
              this address. Clients present tokens with OAUTHBEARER. Can be combined with `url` or `ldap`.",
        set: |domain, given| put(&mut domain.login.issuer, issuer(given).map(Some)),
        show: |domain| domain.login.issuer.as_ref().map(quote),
        example: "\"https://id.example.org/realms/staff\"",
    },
    DomainKey {
        name: "audience",
        doc: "The issuer's names for this server: a token must be made for one of them.",
        set: |domain, given| {
            put(&mut domain.login.audience, given.one_or_more(|given| given.text().map(str::to_owned)))
        },
        show: |domain| {
            super::federation::text(list(&domain.login.audience)).filter(|_| !domain.login.audience.is_empty())
        },
        example: "\"chat\"",
    },
    DomainKey {
        name: "claim",
        doc: "The claim with the user's name. A value with an `@` must belong to this domain.",
        set: |domain, given| put(&mut domain.login.claim, given.text()),
        show: |domain| Some(quote(&domain.login.claim)).filter(|_| domain.login.issuer.is_some()),
        example: "\"preferred_username\"",
    },
    DomainKey {
        name: "scope",
        doc: "The scope that clients are told to ask the issuer for.",
        set: |domain, given| put(&mut domain.login.scope, given.text().map(|text| Some(text.to_owned()))),
        show: |domain| domain.login.scope.as_ref().map(quote),
        example: "\"openid\"",
    },
    DomainKey {
        name: "session_seconds",
        doc: "Seconds that a session may continue after its token has expired; then its client has to log in again,\n\
              with a newer one. 0 ends the session with the token.",
        set: |domain, given| put(&mut domain.login.session_seconds, given.number(0..=31_536_000)),
        show: |domain| unless_default(domain.login.session_seconds, 86_400),
        example: "86400",
    },
    DomainKey {
        name: "client_id",
        doc: "The issuer's name for the admin page, so that administrators can sign in through the issuer. The\n\
              issuer has to allow the redirect address https://HOST/admin/login/back.",
        set: |domain, given| put(&mut domain.login.client_id, given.text().map(|text| Some(text.to_owned()))),
        show: |domain| domain.login.client_id.as_ref().map(quote),
        example: "\"rookery\"",
    },
    DomainKey {
        name: "client_secret_file",
        doc: "A file with the secret that goes with it, if there is one; relative to this file.",
        set: |domain, given| put(&mut domain.login.client_secret_file, file(given)),
        show: |domain| path_text(&domain.login.client_secret_file),
        example: "\"/etc/rookery/issuer.secret\"",
    },
    DomainKey {
        name: "trusted",
        doc: "PEM file with authorities to trust for these addresses, in addition to those that this machine trusts;\n\
              relative to this file.",
        set: |domain, given| put(&mut domain.login.trusted, file(given)),
        show: |domain| path_text(&domain.login.trusted),
        example: "\"/etc/rookery/company.pem\"",
    },
    DomainKey {
        name: "create",
        doc: "false keeps out users without an account here; otherwise one is created at the first login.",
        set: |domain, given| put(&mut domain.login.create, given.switch()),
        show: |domain| (!domain.login.create).then(|| "false".to_owned()),
        example: "true",
    },
    DomainKey {
        name: "seconds",
        doc: "Seconds that a response may take. After that, users who log in are told to try again later; nobody\n\
              else has to wait.",
        set: |domain, given| put(&mut domain.login.seconds, given.number(1..=30)),
        show: |domain| unless_default(domain.login.seconds, 5),
        example: "5",
    },
    DomainKey {
        name: "at_once",
        doc: "Requests in progress at a time.",
        set: |domain, given| put(&mut domain.login.at_once, given.number(1..=1000)),
        show: |domain| unless_default(domain.login.at_once as u64, 16),
        example: "16",
    },
];

/// Returns a setting of groups as TOML, if there are any.
fn of_groups(domain: &DomainConfig, show: impl Fn(&DirectoryGroups) -> String) -> Option<String> {
    let groups = &domain.login.groups;
    groups.base.as_ref().map(|_| show(groups))
}

/// Returns a number as TOML, unless it is the default.
fn unless_default(number: u64, usual: u64) -> Option<String> {
    (number != usual).then(|| number.to_string())
}

fn web_address(given: &GivenValue<'_>) -> Result<WebAddress, WrongValue> {
    given.parse_by(
        "an address that begins with \"https://\", or with \"http://\" for one of this machine",
        WebAddress::read,
    )
}

fn place(given: &GivenValue<'_>) -> Result<DirectoryAddress, WrongValue> {
    given.parse_by("the address of a directory, such as \"ldaps://ldap.example.org\"", DirectoryAddress::read)
}

fn with_user(given: &GivenValue<'_>) -> Result<String, WrongValue> {
    given.parse_by("a text with %u where the user's name belongs", |text| text.contains(USER).then(|| text.to_owned()))
}

fn issuer(given: &GivenValue<'_>) -> Result<String, WrongValue> {
    let what = "the address of an issuer that begins with \"https://\", such as \"https://id.example.org\"";
    given.parse_by(what, |text| WebAddress::read(text).filter(|_| !text.contains(['?', '#'])).map(|_| text.to_owned()))
}
