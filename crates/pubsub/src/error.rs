//! Errors with the conditions of publish-subscribe (XEP-0060 §15.5).

use rookery_hub::failure::condition;
use rookery_store::StoreError;
use rookery_stream::error::{Condition, ErrorType, StanzaError};
use rookery_xml::{Element, ns};

/// Returns an error with a condition of publish-subscribe.
pub(crate) fn specific(condition: Condition, name: &str) -> StanzaError {
    StanzaError::new(condition).with_application(Element::new(name, ns::PUBSUB_ERRORS))
}

/// Returns `feature-not-implemented`, with the name of the feature.
pub(crate) fn unsupported(feature: &str) -> StanzaError {
    let unsupported = Element::new("unsupported", ns::PUBSUB_ERRORS).with_attr("feature", feature);
    StanzaError::new(Condition::FeatureNotImplemented).with_application(unsupported)
}

/// Returns the error for a request without the node that it is about (§7.2.3.3).
pub(crate) fn nodeid_required() -> StanzaError {
    specific(Condition::BadRequest, "nodeid-required")
}

/// Returns the error for a subscription that doesn't exist (§6.2.3.2, §6.3.4.2).
pub(crate) fn not_subscribed(type_: ErrorType) -> StanzaError {
    specific(Condition::UnexpectedRequest, "not-subscribed").with_type(type_)
}

/// Returns the error for invalid options of a subscription (§6.3.5.2).
pub(crate) fn invalid_options() -> StanzaError {
    specific(Condition::BadRequest, "invalid-options")
}

/// Returns the error for a subscription or retrieval that needs the owner's presence (§6.1.3.2).
pub(crate) fn presence_required() -> StanzaError {
    specific(Condition::NotAuthorized, "presence-subscription-required")
}

/// The reason why an operation gets no node.
#[derive(Debug)]
pub(crate) enum Withheld {
    /// Too many requests wait for nodes, from this sender or in total.
    Crowded,
    /// The store failed.
    Store(StoreError),
}

impl From<Withheld> for StanzaError {
    fn from(withheld: Withheld) -> Self {
        match withheld {
            Withheld::Crowded => Condition::ResourceConstraint.into(),
            Withheld::Store(error) => store_failure(&error),
        }
    }
}

/// Returns the error for a request for which the store failed.
pub(crate) fn store_failure(error: &StoreError) -> StanzaError {
    condition(error).into()
}
