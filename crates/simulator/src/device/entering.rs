//! From a new connection to a session: stream, SASL, and binding or resumption (RFC 6120 §4 to §7,
//! XEP-0198 §5).

use base64::{Engine, engine::general_purpose::STANDARD};
use rookery_sasl::Mechanism;
use rookery_sasl::client::{Announced, Exchange, Login};
use rookery_testkit::login::{bind_request, sasl, stream_header};
use rookery_testkit::server::PASSWORD;
use rookery_testkit::websocket;
use rookery_xml::{Element, ns};

use super::channel::{BelievedOffer, binding_types};
use super::{DOMAIN, DeviceStage, ManagedState, UserDevice};
use crate::book::Book;
use crate::plan;
use crate::source::token_of;

impl UserDevice {
    pub(super) fn begin(&mut self, book: &mut Book) {
        self.open_stream(book);
        self.stage = DeviceStage::Opened;
    }

    fn open_stream(&mut self, book: &mut Book) {
        let header = if self.plan.way.is_websocket() { websocket::open(DOMAIN) } else { stream_header(DOMAIN) };
        self.write(&header, book);
    }

    pub(super) fn header(&mut self) {
        match self.stage {
            DeviceStage::Opened => self.stage = DeviceStage::Offered,
            DeviceStage::Restarted => self.stage = DeviceStage::OfferedMore,
            // The header of a stream, which comes before a stream error, too.
            _ => {}
        }
    }

    /// Handles an element before there is a session.
    pub(super) fn enter(&mut self, element: &Element, book: &mut Book) {
        if element.is("error", ns::STREAMS) {
            return;
        }
        match std::mem::replace(&mut self.stage, DeviceStage::Gone) {
            DeviceStage::Offered if std::mem::take(&mut self.registers) => self.register(element, book),
            DeviceStage::Offered => self.authenticate(element, book),
            DeviceStage::Registering(features) => self.authenticate(&features, book),
            DeviceStage::Presented => self.finish_token_login(element, book),
            DeviceStage::Authenticating(exchange) => self.go_on(*exchange, element, book),
            DeviceStage::OfferedMore => self.resume_or_bind(book),
            DeviceStage::Binding(id) => self.bound(&id, element, book),
            DeviceStage::Resuming => self.resumed(element, book),
            stage => {
                self.stage = stage;
                book.break_rule(format!("{} got {} before it asked for anything", self.full(), element.name()));
            }
        }
    }

    /// Creates its account, which another device may have created again already (XEP-0077 §3.1).
    fn register(&mut self, features: &Element, book: &mut Book) {
        let username = format!("<username>u{}</username>", self.plan.account);
        let query = format!("<query xmlns='{}'>{username}<password>{PASSWORD}</password></query>", ns::REGISTER);
        self.write(&format!("<iq type='set' id='register' to='{DOMAIN}'>{query}</iq>"), book);
        self.stage = DeviceStage::Registering(Box::new(features.clone()));
    }

    fn authenticate(&mut self, features: &Element, book: &mut Book) {
        if self.present_token(features, book) {
            return;
        }
        let is_sasl2 = self.plan.login.is_sasl2();
        let offered = match is_sasl2 {
            true => features.child("authentication", ns::SASL2),
            false => features.child("mechanisms", ns::SASL),
        };
        let named =
            |list: &Element| list.children().filter(|child| child.name() == "mechanism").map(Element::text).collect();
        let names: Vec<String> = offered.map(named).unwrap_or_default();
        let is_plain = matches!(self.plan.login, plan::PlannedLogin::Plain | plan::PlannedLogin::Sasl2);
        let mechanism = if is_plain { Mechanism::Plain } else { self.plan.scram };
        let mechanism = self.plan.by_source.unwrap_or(mechanism);
        let types = binding_types(features);
        self.check_channel(&names, types.as_deref(), book);
        if !names.iter().any(|name| name == mechanism.name()) {
            return book.break_rule(format!("{} is not offered, but {names:?}", mechanism.name()));
        }
        let BelievedOffer { mechanism, names, types } = self.believe(BelievedOffer { mechanism, names, types });
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let types: Option<Vec<&str>> = types.as_ref().map(|types| types.iter().map(String::as_str).collect());
        let username = format!("u{}", self.plan.account);
        let token = (mechanism == Mechanism::OAuthBearer).then(|| token_of(&username));
        let password = token.as_deref().unwrap_or(PASSWORD);
        let login = Login { username: &username, password, authzid: None };
        let announced = Announced { mechanisms: &names, binding_types: types.as_deref() };
        let started = Exchange::start(mechanism, &login, &self.bindings(), &announced);
        let (mut exchange, initial) = started.expect("the password can be prepared");
        if self.fault().is_some() {
            // A client that knows XEP-0474 would notice the attack first.
            exchange = exchange.without_downgrade_check();
        }
        let auth = match is_sasl2 {
            true => {
                let wish = self.wish_for_token(features);
                self.authenticate_and_more(mechanism.name(), &initial, &wish)
            }
            false => sasl("auth", Some(mechanism), &initial),
        };
        self.write(&auth, book);
        self.stage = DeviceStage::Authenticating(Box::new(exchange));
    }

    /// Returns the element that logs in and requests the steps that follow (XEP-0388 §2.3): to
    /// resume the session if there is one, and otherwise a new session; `more` is added to it.
    pub(super) fn authenticate_and_more(&self, mechanism: &str, initial: &[u8], more: &str) -> String {
        let agent = format!("<user-agent id='{}/{}'/>", self.bare, self.own_resource);
        let resume = self.resumable().map(|(id, handled)| resume(&id, handled)).unwrap_or_default();
        let enable = |wanted: bool, what: &'static str| if wanted { what } else { "" };
        let managed = if self.plan.is_managed { self.enable() } else { String::new() };
        let carbons = enable(self.plan.carbons, "<enable xmlns='urn:xmpp:carbons:2'/>");
        let bind = match self.plan.login {
            plan::PlannedLogin::Bind2 => format!("<bind xmlns='{}'><tag>T</tag>{managed}{carbons}</bind>", ns::BIND2),
            _ => String::new(),
        };
        let initial = format!("<initial-response>{}</initial-response>", STANDARD.encode(initial));
        let content = format!("{initial}{agent}{more}{resume}{bind}");
        format!("<authenticate xmlns='{}' mechanism='{mechanism}'>{content}</authenticate>", ns::SASL2)
    }

    fn go_on(&mut self, mut exchange: Exchange, element: &Element, book: &mut Book) {
        let is_sasl2 = self.plan.login.is_sasl2();
        let text = match (is_sasl2, element.name()) {
            (true, "success") => element.child_text("additional-data", ns::SASL2).unwrap_or_default(),
            _ => element.text(),
        };
        let data = STANDARD.decode(text).unwrap_or_default();
        match element.name() {
            "challenge" => {
                let response = exchange.challenge(&data, None).expect("a challenge that can be answered");
                let response = match is_sasl2 {
                    true => format!("<response xmlns='{}'>{}</response>", ns::SASL2, STANDARD.encode(response)),
                    false => sasl("response", None, &response),
                };
                self.write(&response, book);
                self.stage = DeviceStage::Authenticating(Box::new(exchange));
            }
            "success" => {
                if !self.may_trust_channel(book) {
                    return;
                }
                exchange.finish(&data).expect("a server that knows the password");
                if is_sasl2 {
                    return self.succeeded(element, book);
                }
                self.open_stream(book);
                self.stage = DeviceStage::Restarted;
            }
            _ if self.is_due_to_channel(element, book) => self.cut_off(book),
            _ => {
                let condition = element.children().next().map(Element::name).unwrap_or_default();
                self.registers = condition == "not-authorized" && book.removed.contains(&self.plan.account);
                // While the store is unavailable, no client can log in.
                if condition != "temporary-auth-failure" && !self.registers {
                    book.break_rule(format!("{} may not log in: {condition}", self.full()));
                }
                self.cut_off(book);
            }
        }
    }

    /// Handles the outcome of a login by XEP-0388 and of everything that was requested with it.
    pub(super) fn succeeded(&mut self, success: &Element, book: &mut Book) {
        self.keep_token(success);
        if let Some(resumed) = success.child("resumed", ns::SM) {
            return self.resumed(resumed, book);
        }
        let failed = success.child("failed", ns::SM).and_then(|failed| failed.attr("h")?.parse().ok());
        failed.into_iter().for_each(|handled| self.acknowledged(handled, book));
        if success.child("failed", ns::SM).is_some() {
            self.cannot_resume(book);
        }
        self.end_session(book);
        let Some(bound) = success.child("bound", ns::BIND2) else {
            self.stage = DeviceStage::OfferedMore;
            return;
        };
        let full = success.child_text("authorization-identifier", ns::SASL2).unwrap_or_default();
        let resource = full.strip_prefix(&self.bare).and_then(|rest| rest.strip_prefix('/'));
        let Some(resource) = resource else {
            return book.break_rule(format!("{} was bound as {full}", self.bare));
        };
        self.set_resource(resource);
        let id = bound.child("enabled", ns::SM).map(|enabled| enabled.attr("id").map(str::to_owned));
        self.managed = id.map(|id| ManagedState { id, counts: true, ..ManagedState::default() });
        self.stage = DeviceStage::Ready;
        self.session = Some(book.open(self.index, self.plan.account, self.managed.is_some()));
        self.begin_session(book);
    }

    fn resumable(&self) -> Option<(String, u32)> {
        self.managed.as_ref().and_then(|managed| Some((managed.id.clone()?, managed.handled)))
    }

    fn resume_or_bind(&mut self, book: &mut Book) {
        match self.resumable() {
            Some((id, handled)) => {
                self.write(&resume(&id, handled), book);
                self.stage = DeviceStage::Resuming;
            }
            None => self.bind(book),
        }
    }

    fn bind(&mut self, book: &mut Book) {
        self.end_session(book);
        self.set_resource(&self.own_resource.clone());
        self.write(&bind_request(Some(&self.own_resource)), book);
        self.stage = DeviceStage::Binding("bind".into());
    }

    fn bound(&mut self, id: &str, element: &Element, book: &mut Book) {
        let bound = element.child("bind", ns::BIND).and_then(|bind| bind.child_text("jid", ns::BIND));
        if element.attr("id") != Some(id) || bound.as_deref() != Some(&*self.full()) {
            // The store may be unavailable, or the older session may still exist.
            if element.attr("type") != Some("error") {
                book.break_rule(format!("{} was bound as {bound:?}", self.full()));
            }
            return self.cut_off(book);
        }
        self.stage = DeviceStage::Ready;
        self.session = Some(book.open(self.index, self.plan.account, self.plan.is_managed));
        if self.plan.is_managed {
            self.write(&self.enable(), book);
            self.managed = Some(ManagedState::default());
        }
        if self.plan.carbons {
            self.ask("carbons", "set", None, "<enable xmlns='urn:xmpp:carbons:2'/>", book);
        }
        self.begin_session(book);
    }

    /// Returns the request for stream management (XEP-0198 §3).
    fn enable(&self) -> String {
        let resume = if self.plan.resumes { " resume='true'" } else { "" };
        format!("<enable xmlns='{}'{resume}/>", ns::SM)
    }

    fn begin_session(&mut self, book: &mut Book) {
        self.stale = book.newest_roster(self.plan.account);
        self.ask_changes(book);
        self.show(book);
    }

    fn resumed(&mut self, element: &Element, book: &mut Book) {
        let handled = element.attr("h").and_then(|h| h.parse().ok());
        match (element.name(), handled) {
            ("resumed", Some(handled)) => {
                self.stage = DeviceStage::Ready;
                self.session.into_iter().for_each(|session| book.sessions[session].goes_on_ms = 0);
                self.acknowledged(handled, book);
                let again = self.managed.as_mut().map(|managed| {
                    managed.sent = managed.count_acknowledged();
                    std::mem::take(&mut managed.unacknowledged)
                });
                for (xml, number) in again.unwrap_or_default() {
                    number.into_iter().for_each(|number| book.say_again(number));
                    self.say(xml, number, book);
                }
            }
            ("failed", handled) => {
                if let Some(handled) = handled {
                    self.acknowledged(handled, book);
                }
                self.cannot_resume(book);
                self.bind(book);
            }
            _ => book.break_rule(format!("{} wanted to resume and got {}", self.full(), element.name())),
        }
    }

    /// Notes how many stanzas the server has handled (XEP-0198 §4).
    pub(super) fn acknowledged(&mut self, h: u32, book: &mut Book) {
        let Some(managed) = &mut self.managed else { return };
        let news = h.wrapping_sub(managed.count_acknowledged());
        if news as usize > managed.unacknowledged.len() {
            let (sent, before) = (managed.sent, managed.count_acknowledged());
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

/// Returns the request to resume a session (XEP-0198 §5).
fn resume(id: &str, handled: u32) -> String {
    format!("<resume xmlns='{}' previd='{id}' h='{handled}'/>", ns::SM)
}
