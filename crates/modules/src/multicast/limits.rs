//! How many recipients a stanza may have, and how the service tells (XEP-0033 §6, ejabberd's form of it).

use rookery_hub::Options;
use rookery_xml::{Element, Kind, ns};

pub(super) const LOCAL_MESSAGES: &str = "local_messages";
pub(super) const LOCAL_PRESENCES: &str = "local_presences";
pub(super) const REMOTE_MESSAGES: &str = "remote_messages";
pub(super) const REMOTE_PRESENCES: &str = "remote_presences";

/// The limit for a stanza; `None` if there is none.
pub(super) fn of(options: &Options, is_local: bool, kind: Kind) -> Option<usize> {
    let key = match (is_local, kind) {
        (true, Kind::Presence) => LOCAL_PRESENCES,
        (true, _) => LOCAL_MESSAGES,
        (false, Kind::Presence) => REMOTE_PRESENCES,
        (false, _) => REMOTE_MESSAGES,
    };
    Some(options.number(key)).filter(|&limit| limit > 0).map(|limit| limit as usize)
}

/// The form with the limits that hold for whoever asks. Where there is none it says so by leaving the field out.
pub(super) fn form(options: &Options, is_local: bool) -> Element {
    let field = |var: &str, value: &str| {
        let value = Element::new("value", ns::DATA_FORMS).with_text(value);
        Element::new("field", ns::DATA_FORMS).with_attr("var", var).with_child(value)
    };
    let form = Element::new("x", ns::DATA_FORMS).with_attr("type", "result");
    let form = form.with_child(field("FORM_TYPE", ns::ADDRESS).with_attr("type", "hidden"));
    [("message", Kind::Message), ("presence", Kind::Presence)].into_iter().fold(form, |form, (var, kind)| {
        match of(options, is_local, kind) {
            Some(limit) => form.with_child(field(var, &limit.to_string())),
            None => form,
        }
    })
}
