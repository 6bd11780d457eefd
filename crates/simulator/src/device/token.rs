//! Tokens instead of passwords (XEP-0484).

use base64::{Engine, engine::general_purpose::STANDARD};
use rookery_sasl::token::Presented;
use rookery_sasl::{TokenKey, TokenMechanism};
use rookery_xml::{Element, ns};

use super::channel::ChannelFault;
use super::{DeviceStage, UserDevice};
use crate::book::Book;

impl UserDevice {
    /// Logs in by its token, if it has one and the server supports tokens. Returns whether it does
    /// so.
    pub(super) fn present_token(&mut self, features: &Element, book: &mut Book) -> bool {
        let mechanism = self.token_mechanism;
        let is_bound = mechanism != TokenMechanism::Unbound;
        let bindings = self.bindings();
        let binding = mechanism.binding(&bindings).filter(|_| takes_tokens(features, mechanism));
        let (Some(key), Some(binding)) = (&self.token, binding) else { return false };
        match &mut self.channel {
            // The other faults are of SCRAM.
            Some(channel) if channel.fault.is_some_and(|fault| fault != ChannelFault::Relayed) => return false,
            Some(channel) => channel.is_bound = is_bound,
            None => {}
        }
        let username = format!("u{}", self.plan.account);
        let initial = Presented { username, proof: key.initiator(binding) }.write();
        let fast = format!("<fast xmlns='{}'/>", ns::FAST);
        let authenticate = self.authenticate_and_more(mechanism.name(), &initial, &fast);
        self.write(&authenticate, book);
        self.stage = DeviceStage::Presented;
        true
    }

    /// Returns the request for a token, if it has none and the server issues them.
    pub(super) fn wish_for_token(&mut self, features: &Element) -> String {
        let bindings = self.bindings();
        let mechanism = TokenMechanism::to_offer(&bindings).find(|mechanism| takes_tokens(features, *mechanism));
        let Some(mechanism) = mechanism.filter(|_| self.plan.has_token && self.token.is_none()) else {
            return String::new();
        };
        self.token_mechanism = mechanism;
        format!("<request-token xmlns='{}' mechanism='{}'/>", ns::FAST, mechanism.name())
    }

    /// Handles the outcome of a login by token.
    pub(super) fn finish_token_login(&mut self, answer: &Element, book: &mut Book) {
        let Some(key) = self.token.clone() else { return };
        if answer.name() == "success" {
            if !self.may_trust_channel(book) {
                return;
            }
            let bindings = self.bindings();
            let binding = self.token_mechanism.binding(&bindings).unwrap_or_default();
            let data = answer.child_text("additional-data", ns::SASL2).unwrap_or_default();
            if STANDARD.decode(data).unwrap_or_default() != key.responder(binding) {
                book.break_rule(format!("{} was let in by a server without its token (XEP-0484 §3.4)", self.full()));
            }
            return self.succeeded(answer, book);
        }
        if self.is_due_to_channel(answer, book) {
            // The token is as good as before (XEP-0484 §3.4).
            return self.cut_off(book);
        }
        let condition = answer.children().next().map(Element::name).unwrap_or_default();
        if condition != "temporary-auth-failure" {
            self.token = None;
            // The account may be gone. The token may be too old by the time of day, or replaced by
            // a login that was given up at another node.
            let may_be_replaced = self.broken_off.iter().any(|node| *node != self.token_node || book.node_deaths > 0);
            let may_be_void =
                may_be_replaced || book.removed.contains(&self.plan.account) || book.store_failed || book.jumped;
            if !may_be_void {
                book.break_rule(format!("{}'s token is no good: {condition} (XEP-0484 §3.4)", self.full()));
            }
        }
        self.cut_off(book);
    }

    /// Keeps the token from a login, in place of its current one.
    pub(super) fn keep_token(&mut self, success: &Element) {
        let token = success.child("token", ns::FAST).and_then(|token| token.attr("token"));
        token.into_iter().for_each(|token| (self.token, self.token_node) = (Some(TokenKey::of(token)), self.node));
    }
}

/// Returns whether a server issues and takes tokens for this mechanism.
fn takes_tokens(features: &Element, mechanism: TokenMechanism) -> bool {
    let inline = features.child("authentication", ns::SASL2).and_then(|feature| feature.child("inline", ns::SASL2));
    let fast = inline.and_then(|inline| inline.child("fast", ns::FAST));
    fast.is_some_and(|fast| fast.children().any(|child| child.text() == mechanism.name()))
}
