//! The way to a session: stream, SASL, binding or resumption (RFC 6120 §4 to §7, XEP-0198 §5).

use base64::{Engine, engine::general_purpose::STANDARD};
use rookery_sasl::client::{Announced, Exchange, Login};
use rookery_sasl::{ChannelBindings, Mechanism};
use rookery_testkit::login::{bind_request, sasl, stream_header};
use rookery_testkit::server::PASSWORD;
use rookery_xml::{Element, ns};

use super::{DOMAIN, Device, Managed, Stage};
use crate::book::Book;

impl Device {
    pub(super) fn begin(&mut self, book: &mut Book) {
        self.write(&stream_header(DOMAIN), book);
        self.stage = Stage::Opened;
    }

    pub(super) fn header(&mut self) {
        match self.stage {
            Stage::Opened => self.stage = Stage::Offered,
            Stage::Restarted => self.stage = Stage::OfferedMore,
            // The header before a stream error.
            _ => {}
        }
    }

    /// Takes an element before there is a session.
    pub(super) fn enter(&mut self, element: &Element, book: &mut Book) {
        if element.is("error", ns::STREAMS) {
            return;
        }
        match std::mem::replace(&mut self.stage, Stage::Gone) {
            Stage::Offered => self.authenticate(element, book),
            Stage::Authenticating(exchange) => self.go_on(*exchange, element, book),
            Stage::OfferedMore => self.resume_or_bind(book),
            Stage::Binding(id) => self.bound(&id, element, book),
            Stage::Resuming => self.resumed(element, book),
            stage => {
                self.stage = stage;
                book.break_rule(format!("{} got {} before it asked for anything", self.full(), element.name()));
            }
        }
    }

    fn authenticate(&mut self, features: &Element, book: &mut Book) {
        let offered = features.child("mechanisms", ns::SASL);
        let names: Vec<String> = offered.map(|list| list.children().map(Element::text).collect()).unwrap_or_default();
        let mechanism = if self.plan.scram { Mechanism::ScramSha256 } else { Mechanism::Plain };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        if !names.contains(&mechanism.name()) {
            return book.break_rule(format!("{} is not offered, but {names:?}", mechanism.name()));
        }
        let username = format!("u{}", self.plan.account);
        let login = Login { username: &username, password: PASSWORD, authzid: None };
        let announced = Announced { mechanisms: &names, binding_types: None };
        let started = Exchange::start(mechanism, &login, &ChannelBindings::default(), &announced);
        let (exchange, initial) = started.expect("the password can be prepared");
        self.write(&sasl("auth", Some(mechanism), &initial), book);
        self.stage = Stage::Authenticating(Box::new(exchange));
    }

    fn go_on(&mut self, mut exchange: Exchange, element: &Element, book: &mut Book) {
        let data = STANDARD.decode(element.text()).unwrap_or_default();
        match element.name() {
            "challenge" => {
                let response = exchange.challenge(&data, None).expect("a challenge that can be answered");
                self.write(&sasl("response", None, &response), book);
                self.stage = Stage::Authenticating(Box::new(exchange));
            }
            "success" => {
                exchange.finish(&data).expect("a server that knows the password");
                self.write(&stream_header(DOMAIN), book);
                self.stage = Stage::Restarted;
            }
            _ => {
                let condition = element.children().next().map(Element::name).unwrap_or_default();
                // A store that is away lets nobody in.
                if condition != "temporary-auth-failure" {
                    book.break_rule(format!("{} may not log in: {condition}", self.full()));
                }
                self.cut(true, book);
            }
        }
    }

    fn resume_or_bind(&mut self, book: &mut Book) {
        let resumable = self.managed.as_ref().and_then(|managed| Some((managed.id.clone()?, managed.handled)));
        match resumable {
            Some((id, handled)) => {
                self.write(&format!("<resume xmlns='{}' previd='{id}' h='{handled}'/>", ns::SM), book);
                self.stage = Stage::Resuming;
            }
            None => self.bind(book),
        }
    }

    fn bind(&mut self, book: &mut Book) {
        self.end_session(book);
        let resource = self.resource.clone();
        self.write(&bind_request(Some(&resource)), book);
        self.stage = Stage::Binding("bind".into());
    }

    fn bound(&mut self, id: &str, element: &Element, book: &mut Book) {
        let bound = element.child("bind", ns::BIND).and_then(|bind| bind.child_text("jid", ns::BIND));
        if element.attr("id") != Some(id) || bound.as_deref() != Some(&*self.full()) {
            // The store may be away, or the older session is not gone yet.
            if element.attr("type") != Some("error") {
                book.break_rule(format!("{} was bound as {bound:?}", self.full()));
            }
            return self.cut(true, book);
        }
        self.stage = Stage::Ready;
        self.session = Some(book.open(self.index, self.plan.account, self.plan.is_managed));
        if self.plan.is_managed {
            self.write(&format!("<enable xmlns='{}' resume='true'/>", ns::SM), book);
            self.managed = Some(Managed::default());
        }
        if self.plan.carbons {
            self.ask("carbons", "set", None, "<enable xmlns='urn:xmpp:carbons:2'/>", book);
        }
        self.ask("roster", "get", None, "<query xmlns='jabber:iq:roster'/>", book);
        self.show(book);
    }

    fn resumed(&mut self, element: &Element, book: &mut Book) {
        let handled = element.attr("h").and_then(|h| h.parse().ok());
        match (element.name(), handled) {
            ("resumed", Some(handled)) => {
                self.stage = Stage::Ready;
                self.acknowledged(handled, book);
                let again = self.managed.as_mut().map(|managed| {
                    managed.sent = managed.acknowledged();
                    std::mem::take(&mut managed.unacknowledged)
                });
                for (xml, number) in again.unwrap_or_default() {
                    self.say(xml, number, book);
                }
            }
            ("failed", handled) => {
                if let Some(handled) = handled {
                    self.acknowledged(handled, book);
                }
                self.bind(book);
            }
            _ => book.break_rule(format!("{} wanted to resume and got {}", self.full(), element.name())),
        }
    }

    /// The server has handled so many stanzas (XEP-0198 §4).
    pub(super) fn acknowledged(&mut self, h: u32, book: &mut Book) {
        let Some(managed) = &mut self.managed else { return };
        let news = h.wrapping_sub(managed.acknowledged());
        if news as usize > managed.unacknowledged.len() {
            let (sent, before) = (managed.sent, managed.acknowledged());
            return book.break_rule(format!(
                "{}/{} sent {sent} stanzas, of which {before} were acknowledged, and now {h} (XEP-0198 §4)",
                self.bare, self.resource
            ));
        }
        for (_, number) in managed.unacknowledged.drain(..news as usize) {
            if let Some(number) = number {
                book.messages[number].is_handled = true;
            }
        }
    }
}
