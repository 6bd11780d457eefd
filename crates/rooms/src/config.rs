//! The configuration of a room: its owner's form (XEP-0045 §10.1.3) and its stored form.

use rookery_base::Set;
use rookery_modkit::form::{Field, Form};
use rookery_stream::error::{Condition, StanzaError};

use super::limits::RoomLimits;
use super::role::RoomRole;

/// The configuration of a room, by its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RoomConfig {
    pub name: String,
    pub description: String,
    pub lang: String,
    /// The URI of a publish-subscribe node that belongs to the room.
    pub pubsub: String,
    pub is_public: bool,
    pub is_persistent: bool,
    pub is_members_only: bool,
    pub is_moderated: bool,
    /// True if all occupants see real JIDs, not only moderators.
    pub is_nonanonymous: bool,
    /// The password that users need to enter; empty if they need none.
    pub password: String,
    pub max_occupants: usize,
    /// True if participants, too, may change the subject.
    pub subject_by_all: bool,
    /// True if members may invite others to a members-only room.
    pub invites_by_members: bool,
    /// True if users may register (§7.10); if membership is a privilege, registering asks an admin
    /// for it (§9.9).
    pub takes_registrations: bool,
    /// The least role that may send private messages; [`RoomRole::None`] if no occupant may.
    pub private_messages: RoomRole,
    /// The roles whose presence is broadcast.
    pub broadcast: Vec<RoomRole>,
    /// The roles that may get the member list of a non-anonymous room.
    pub member_list: Vec<RoomRole>,
    /// The number of messages that the room remembers for users who enter.
    pub history: usize,
    pub is_logged: bool,
    /// True if messages go into the room's archive.
    pub is_archived: bool,
    /// The days for which messages stay in the archive, unless the operator sets fewer; 0 leaves it
    /// to the operator.
    pub archive_days: u64,
}

impl RoomConfig {
    /// Returns the configuration of a new room.
    pub(crate) fn new(limits: &RoomLimits) -> Self {
        let defaults = limits.defaults;
        Self {
            name: String::new(),
            description: String::new(),
            lang: String::new(),
            pubsub: String::new(),
            is_public: defaults.public,
            is_persistent: defaults.persistent,
            is_members_only: defaults.members_only,
            is_moderated: defaults.moderated,
            is_nonanonymous: defaults.nonanonymous,
            password: String::new(),
            max_occupants: defaults.occupants.min(limits.occupants),
            subject_by_all: false,
            invites_by_members: false,
            takes_registrations: true,
            private_messages: RoomRole::Visitor,
            broadcast: RoomRole::PRESENT.to_vec(),
            member_list: RoomRole::PRESENT.to_vec(),
            history: defaults.history.min(limits.history),
            is_logged: false,
            is_archived: defaults.archived,
            archive_days: 0,
        }
    }

    /// Reads a configuration from the store, within what the operator allows now. `None` if it
    /// can't be read: a room must not open because its lock is damaged.
    pub(crate) fn read_stored(form: &Form, limits: &RoomLimits) -> Option<Self> {
        // A text that was once short enough stays.
        let lenient = RoomLimits { description: usize::MAX, ..limits.clone() };
        let mut stored = Self::new(limits).with(form, &lenient).ok()?;
        // A room must not claim to be logged if the operator no longer has a folder for logs.
        stored.is_logged &= limits.logs.is_some();
        Some(stored)
    }

    /// Writes the configuration for the store.
    pub(crate) fn document(&self) -> Form {
        self.fields(Form::new("submit").hidden("FORM_TYPE", ROOMCONFIG)).field(self.log_field())
    }

    /// Returns the form that an owner gets, without the lists of owners and admins.
    pub(crate) fn form(&self, room: &str, limits: &RoomLimits) -> Form {
        let form = Form::new("form").title(&format!("Configuration of {room}"));
        let form = form.instructions("Complete this form to change the configuration of the room.");
        let form = self.fields(form.hidden("FORM_TYPE", ROOMCONFIG));
        // A setting that the operator's configuration rules out isn't offered.
        if limits.logs.is_some() { form.field(self.log_field()) } else { form }
    }

    fn fields(&self, form: Form) -> Form {
        let form = form
            .field(Field::text_single(NAME).label("Name").value(&self.name))
            .field(Field::text_single(DESC).label("Short description").value(&self.description))
            .field(Field::text_single(LANG).label("Language of discussions").value(&self.lang))
            .field(
                Field::text_single(PUBSUB).label("URI of the publish-subscribe node of the room").value(&self.pubsub),
            )
            .field(Field::boolean(PUBLIC, self.is_public).label("Let everybody find the room"))
            .field(Field::boolean(PERSISTENT, self.is_persistent).label("Keep the room when nobody is in it"))
            .field(Field::boolean(MEMBERS_ONLY, self.is_members_only).label("Only members may enter"))
            .field(Field::boolean(INVITES, self.invites_by_members).label("Members may invite others"))
            .field(Field::boolean(REGISTRATION, self.takes_registrations).label(
                "Users may register, which an admin approves where only members may enter or only some may speak",
            ))
            .field(Field::boolean(PROTECTED, !self.password.is_empty()).label("A password is required to enter"))
            .field(Field::text_private(SECRET).label("Password").value(&self.password))
            .field(Field::boolean(MODERATED, self.is_moderated).label("Only occupants with voice may speak"))
            .field(Field::boolean(SUBJECT, self.subject_by_all).label("Participants may change the subject"));
        let whois = Field::list_single(WHOIS).label("Who may see real addresses");
        let whois = whois.value(if self.is_nonanonymous { "anyone" } else { "moderators" });
        let whois = whois.option("moderators", "Moderators only").option("anyone", "Anyone");
        let pm =
            Field::list_single(PM).label("Who may send private messages").value(allowed_name(self.private_messages));
        let pm = ALLOWED.iter().fold(pm, |pm, (_, name, label)| pm.option(name, label));
        form.field(whois)
            .field(pm)
            .field(roles(BROADCAST, "Roles whose presence is broadcast", &self.broadcast))
            .field(roles(MEMBER_LIST, "Roles that may get the list of members", &self.member_list))
            .field(self.max_field())
            .field(
                Field::text_single(HISTORY).label("Messages shown to users who enter").value(&self.history.to_string()),
            )
            .field(Field::boolean(ARCHIVING, self.is_archived).label("Keep messages in the archive of the room"))
            .field(self.days_field())
    }

    /// Returns the field for days, which is empty if the owner leaves it to the operator.
    fn days_field(&self) -> Field {
        let days = if self.archive_days > 0 { self.archive_days.to_string() } else { String::new() };
        Field::text_single(ARCHIVE_DAYS).label("Days after which messages are removed from the archive").value(&days)
    }

    fn log_field(&self) -> Field {
        Field::boolean(LOGGING, self.is_logged).label("Log the conversation for the public")
    }

    fn max_field(&self) -> Field {
        let max = self.max_occupants.to_string();
        let field = Field::list_single(MAX_USERS).label("Most occupants").value(&max);
        let mut options: Vec<_> = [10, 20, 50, 100, 500, 1000, 5000, 10_000].to_vec();
        options.push(self.max_occupants);
        options.sort_unstable();
        options.dedup();
        options.iter().map(usize::to_string).fold(field, |field, option| field.option(&option, &option))
    }

    /// Returns the configuration with the fields of a submitted form; fields that are missing stay
    /// as they are.
    ///
    /// # Errors
    /// `not-acceptable` (§10.2) with the field that is wrong.
    pub(crate) fn with_submitted(&self, form: &Form, limits: &RoomLimits) -> Result<Self, StanzaError> {
        match form.value(LANG).map(str::trim) {
            Some(lang) if !lang.is_empty() && !is_language(lang) => Err(unacceptable(LANG)),
            _ => self.with(form, limits).and_then(|new| match new.is_logged && limits.logs.is_none() {
                // §10.2: no owner is told that logging works where it doesn't.
                true => Err(unacceptable(LOGGING)),
                false => Ok(new),
            }),
        }
    }

    fn with(&self, form: &Form, limits: &RoomLimits) -> Result<Self, StanzaError> {
        let mut new = self.clone();
        for (var, switch) in [
            (PUBLIC, &mut new.is_public),
            (PERSISTENT, &mut new.is_persistent),
            (MEMBERS_ONLY, &mut new.is_members_only),
            (INVITES, &mut new.invites_by_members),
            (REGISTRATION, &mut new.takes_registrations),
            (MODERATED, &mut new.is_moderated),
            (SUBJECT, &mut new.subject_by_all),
            (LOGGING, &mut new.is_logged),
            (ARCHIVING, &mut new.is_archived),
        ] {
            *switch = read_boolean(form, var)?.unwrap_or(*switch);
        }
        let texts =
            [(NAME, &mut new.name), (DESC, &mut new.description), (LANG, &mut new.lang), (PUBSUB, &mut new.pubsub)];
        for (var, text) in texts {
            if form.has(var) {
                *text = form.value(var).unwrap_or_default().trim().to_owned();
            }
            if text.len() > limits.description {
                return Err(unacceptable(var));
            }
        }
        if let Some(days) = form.value(ARCHIVE_DAYS).map(str::trim) {
            let days = if days.is_empty() { Ok(0) } else { days.parse::<u32>() };
            new.archive_days = days.map_err(|_| unacceptable(ARCHIVE_DAYS))?.into();
        }
        new.set_lists(form, limits)?;
        new.set_password(form, limits)?;
        Ok(new)
    }

    fn set_lists(&mut self, form: &Form, limits: &RoomLimits) -> Result<(), StanzaError> {
        match form.value(WHOIS) {
            None => {}
            Some("anyone") => self.is_nonanonymous = true,
            Some("moderators") => self.is_nonanonymous = false,
            Some(_) => return Err(unacceptable(WHOIS)),
        }
        if let Some(value) = form.value(PM) {
            let found = ALLOWED.iter().find(|(_, name, _)| *name == value);
            self.private_messages = found.map(|(role, ..)| *role).ok_or_else(|| unacceptable(PM))?;
        }
        for (var, list) in [(BROADCAST, &mut self.broadcast), (MEMBER_LIST, &mut self.member_list)] {
            if form.has(var) {
                let named =
                    form.values(var).map(|name| RoomRole::from_name(name).filter(|role| *role != RoomRole::None));
                let named = named.collect::<Option<Set<_>>>().ok_or_else(|| unacceptable(var))?;
                // Each role once, however often it is named: every presence looks through this.
                *list = RoomRole::PRESENT.into_iter().filter(|role| named.contains(role)).collect();
            }
        }
        for (var, number, most) in
            [(MAX_USERS, &mut self.max_occupants, limits.occupants), (HISTORY, &mut self.history, limits.history)]
        {
            match form.value(var).map(str::trim) {
                None => {}
                Some("" | "none") => *number = most,
                Some(text) => *number = text.parse::<usize>().map_err(|_| unacceptable(var))?.min(most),
            }
        }
        match self.max_occupants {
            0 => Err(unacceptable(MAX_USERS)),
            _ => Ok(()),
        }
    }

    fn set_password(&mut self, form: &Form, limits: &RoomLimits) -> Result<(), StanzaError> {
        let secret = form.value(SECRET).filter(|secret| !secret.is_empty());
        match read_boolean(form, PROTECTED)? {
            Some(false) => self.password.clear(),
            Some(true) => match secret {
                Some(secret) => secret.clone_into(&mut self.password),
                // The room was protected already, and the form doesn't change that.
                None if !form.has(SECRET) && !self.password.is_empty() => {}
                None => return Err(unacceptable(SECRET)),
            },
            None => {
                if let Some(secret) = secret.filter(|_| !self.password.is_empty()) {
                    secret.clone_into(&mut self.password);
                }
            }
        }
        if self.password.len() > limits.description { Err(unacceptable(SECRET)) } else { Ok(()) }
    }
}

fn roles(var: &str, label: &str, chosen: &[RoomRole]) -> Field {
    let field = Field::list_multi(var).label(label).with_values(chosen.iter().map(|role| role.name()));
    RoomRole::PRESENT.iter().fold(field, |field, role| field.option(role.name(), role.name()))
}

fn read_boolean(form: &Form, var: &str) -> Result<Option<bool>, StanzaError> {
    form.boolean(var).transpose().map_err(|_| unacceptable(var))
}

/// Returns whether a text has the form of a language tag (RFC 5646 §2.1), as `xml:lang` has.
fn is_language(text: &str) -> bool {
    let mut parts = text.split('-');
    let is_part = |part: &str| (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    parts.next().is_some_and(|first| is_part(first) && first.bytes().all(|byte| byte.is_ascii_alphabetic()))
        && parts.all(is_part)
}

fn allowed_name(role: RoomRole) -> &'static str {
    ALLOWED.iter().find(|(found, ..)| *found == role).map_or("none", |(_, name, _)| name)
}

pub(crate) fn unacceptable(var: &str) -> StanzaError {
    StanzaError::new(Condition::NotAcceptable).with_text(format!("the value of {var} is not acceptable"))
}

/// The type of the form.
pub(crate) const ROOMCONFIG: &str = "http://jabber.org/protocol/muc#roomconfig";
/// The full list of owners.
pub(crate) const OWNERS: &str = "muc#roomconfig_roomowners";
/// The full list of admins.
pub(crate) const ADMINS: &str = "muc#roomconfig_roomadmins";
/// The number of messages that a room remembers.
pub(crate) const HISTORY: &str = "muc#maxhistoryfetch";
/// The permission of participants to change the subject.
pub(crate) const SUBJECT: &str = "muc#roomconfig_changesubject";
pub(crate) const NAME: &str = "muc#roomconfig_roomname";
pub(crate) const DESC: &str = "muc#roomconfig_roomdesc";
const LANG: &str = "muc#roomconfig_lang";
pub(crate) const PUBLIC: &str = "muc#roomconfig_publicroom";
pub(crate) const PERSISTENT: &str = "muc#roomconfig_persistentroom";
pub(crate) const MEMBERS_ONLY: &str = "muc#roomconfig_membersonly";
const INVITES: &str = "muc#roomconfig_allowinvites";
const PROTECTED: &str = "muc#roomconfig_passwordprotectedroom";
const SECRET: &str = "muc#roomconfig_roomsecret";
const MODERATED: &str = "muc#roomconfig_moderatedroom";
const WHOIS: &str = "muc#roomconfig_whois";
const PM: &str = "muc#roomconfig_allowpm";
const BROADCAST: &str = "muc#roomconfig_presencebroadcast";
const MEMBER_LIST: &str = "muc#roomconfig_getmemberlist";
const MAX_USERS: &str = "muc#roomconfig_maxusers";
/// The publish-subscribe node of the room.
pub(crate) const PUBSUB: &str = "muc#roomconfig_pubsub";
/// The permission to register. The standard has no field for it; other servers use the same name.
const REGISTRATION: &str = "muc#roomconfig_registration";
const ARCHIVING: &str = "muc#roomconfig_enablearchiving";
const LOGGING: &str = "muc#roomconfig_enablelogging";
/// A field of our own, as the prefix says (XEP-0068 §3.4).
const ARCHIVE_DAYS: &str = "x-archive_days";

/// The roles that may send private messages: each with the least role, the value, the label.
const ALLOWED: [(RoomRole, &str, &str); 4] = [
    (RoomRole::Visitor, "anyone", "Anyone"),
    (RoomRole::Participant, "participants", "Who has voice"),
    (RoomRole::Moderator, "moderators", "Moderators only"),
    (RoomRole::None, "none", "Nobody"),
];
