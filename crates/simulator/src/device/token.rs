//! Tokens instead of passwords (XEP-0484).

use base64::{Engine, engine::general_purpose::STANDARD};
use rookery_sasl::token::Presented;
use rookery_sasl::{TokenKey, TokenMechanism};
use rookery_xml::{Element, ns};

use super::{DeviceStage, UserDevice};
use crate::book::Book;

impl UserDevice {
    /// Logs in by its token, if it has one and the server supports tokens. Returns whether it does
    /// so.
    pub(super) fn present_token(&mut self, features: &Element, book: &mut Book) -> bool {
        let Some(key) = self.token.as_ref().filter(|_| takes_tokens(features)) else { return false };
        let username = format!("u{}", self.plan.account);
        let initial = Presented { username, proof: key.initiator(&[]) }.write();
        let fast = format!("<fast xmlns='{}'/>", ns::FAST);
        let authenticate = self.authenticate_and_more(MECHANISM.name(), &initial, &fast);
        self.write(&authenticate, book);
        self.stage = DeviceStage::Presented;
        true
    }

    /// Returns the request for a token, if it has none and the server issues them.
    pub(super) fn wish_for_token(&self, features: &Element) -> String {
        let wishes = self.plan.has_token && self.token.is_none() && takes_tokens(features);
        let request = format!("<request-token xmlns='{}' mechanism='{}'/>", ns::FAST, MECHANISM.name());
        if wishes { request } else { String::new() }
    }

    /// Handles the outcome of a login by token.
    pub(super) fn finish_token_login(&mut self, answer: &Element, book: &mut Book) {
        let Some(key) = self.token.clone() else { return };
        if answer.name() == "success" {
            let data = answer.child_text("additional-data", ns::SASL2).unwrap_or_default();
            if STANDARD.decode(data).unwrap_or_default() != key.responder(&[]) {
                book.break_rule(format!("{} was let in by a server without its token (XEP-0484 §3.4)", self.full()));
            }
            return self.succeeded(answer, book);
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

fn takes_tokens(features: &Element) -> bool {
    let inline = features.child("authentication", ns::SASL2).and_then(|feature| feature.child("inline", ns::SASL2));
    let fast = inline.and_then(|inline| inline.child("fast", ns::FAST));
    fast.is_some_and(|fast| fast.children().any(|child| child.text() == MECHANISM.name()))
}

/// TLS ends at a proxy, so a token can't be bound to the connection.
const MECHANISM: TokenMechanism = TokenMechanism::Unbound;
