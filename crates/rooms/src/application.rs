//! Requests to register with a room: the stored ones that wait for an admin, and the fields of the
//! forms (XEP-0045 §7.10, §9.9).

use rookery_jid::Jid;
use rookery_modkit::form::{Field, Form};
use rookery_xml::Element;

/// A user who wants to be registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingApplicant {
    /// The bare JID.
    pub user: Jid,
    /// The nick that is to be reserved.
    pub nick: String,
    /// The rest of the user's statements, in fields of [`ABOUT`].
    pub about: Form,
}

impl WaitingApplicant {
    /// Returns the application in its stored form, in the namespace of the room's document.
    pub(crate) fn element(&self, format: &str) -> Element {
        let waiting =
            Element::new("waiting", format).with_attr("jid", self.user.as_str()).with_attr("nick", &self.nick);
        waiting.with_child(self.about.element())
    }

    /// Reads what [`WaitingApplicant::element`] has written.
    pub(crate) fn read(element: &Element) -> Option<Self> {
        let user = Jid::parse(element.attr("jid")?).ok()?;
        Some(Self { user, nick: element.attr("nick")?.to_owned(), about: Form::within(element)? })
    }
}

/// Adds the fields of a registration that has to be approved, since a nick may tell the deciding
/// admin nothing.
pub(super) fn more_fields(form: Form) -> Form {
    ABOUT.iter().fold(form, |form, (var, label)| form.field(Field::text_single(var).label(label)))
}

/// The type of the form (§15.5.1).
pub(super) const REGISTER: &str = "http://jabber.org/protocol/muc#register";
/// The nick that is to be reserved.
pub(super) const NICK: &str = "muc#register_roomnick";

/// The fields that a user may fill in, other than the nick (§15.5.1).
pub(super) const ABOUT: [(&str, &str); 5] = [
    ("muc#register_first", "Given name"),
    ("muc#register_last", "Family name"),
    ("muc#register_email", "Email address"),
    ("muc#register_url", "A web page"),
    ("muc#register_faqentry", "FAQ entry"),
];
