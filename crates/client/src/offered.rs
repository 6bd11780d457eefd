//! The mechanisms that a server offers.

use rookery_sasl::client::Announced;
use rookery_xml::{Element, ns};

/// The mechanisms and channel-binding types that stream features list (RFC 6120 §6.4.1, XEP-0440
/// §2).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OfferedMechanisms {
    /// The names of the mechanisms, in the server's order.
    pub names: Vec<String>,
    /// The names of the channel-binding types; `None` if there is no such list.
    pub binding_types: Option<Vec<String>>,
}

impl OfferedMechanisms {
    /// Reads the offer from the features of a stream; returns `None` if the features offer no
    /// login.
    pub fn read(features: &Element) -> Option<Self> {
        let names = features.child("mechanisms", ns::SASL)?.children().map(Element::text).collect();
        let types = features.child("sasl-channel-binding", ns::CHANNEL_BINDING);
        let types =
            types.map(|list| list.children().filter_map(|child| child.attr("type")).map(str::to_owned).collect());
        Some(Self { names, binding_types: types })
    }

    /// Calls `with` with the offer in the form that an exchange needs.
    pub fn with_announced<T>(&self, with: impl FnOnce(&Announced<'_>) -> T) -> T {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let types: Option<Vec<&str>> =
            self.binding_types.as_ref().map(|types| types.iter().map(String::as_str).collect());
        with(&Announced { mechanisms: &names, binding_types: types.as_deref() })
    }
}
