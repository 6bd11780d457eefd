//! The page after a link was used: the address, and the ways to chat.

use hyper::{Response, StatusCode};
use rookery_jid::Jid;

use super::guest::{HOME, READY, WebGuest, lead};
use super::home::chat_button;
use super::{apps, qr};
use crate::form::{encode, value};
use crate::html::Html;
use crate::reply::Body;

/// Returns the path of the page about a new account, or one whose password was set.
pub fn path(account: &Jid, is_new: bool) -> String {
    let about = if is_new { "new" } else { "password" };
    format!("{READY}?account={}&about={about}", encode(account.as_str()))
}

/// Returns the page. It shows nothing beyond its address, so it doesn't reveal whether the account
/// exists.
pub async fn page(guest: &WebGuest, query: &[(String, String)]) -> Response<Body> {
    let is_ours = |jid: &Jid| guest.shared.settings().domains.iter().any(|domain| domain == jid.domain());
    let account = Jid::parse(value(query, "account")).ok().filter(|jid| jid.local().is_some() && is_ours(jid));
    let Some(account) = account.map(|account| account.to_bare()) else {
        return lead(StatusCode::SEE_OTHER, HOME);
    };
    let words = guest.words();
    let (title, text) = match value(query, "about") {
        "password" => (words.set_title, words.set_text),
        _ => (words.ready_title, words.ready_text),
    };
    let mut main = Html::of(
        "<section class=\"card\"><h1>{}</h1><p class=\"address\" id=\"account\">{}</p><p>{}</p><p class=\"acts\">",
        &[&title, &account, &text],
    );
    main.push(&chat_button(guest).await);
    main.add("</p></section>", &[]);
    main.push(&apps::card(guest.device, words));
    if let Some(pages) = guest.shared.pages(account.domain())
        && !guest.device.is_phone()
    {
        main.push(&on_phone(guest, &format!("{pages}/")));
    }
    guest.frame(account.domain()).response(StatusCode::OK, title, &main)
}

/// Returns the QR code of an address, to continue on a phone.
pub fn on_phone(guest: &WebGuest, address: &str) -> Html {
    let words = guest.words();
    let label = Html::of(words.qr_label, &[&address]).into_text();
    let Some(code) = qr::code(address, &label) else { return Html::default() };
    let mut html =
        Html::of("<section class=\"card\" id=\"phone\"><h2>{}</h2><p>{}</p>", &[&words.phone_title, &words.phone_text]);
    html.push(&code);
    html.add("</section>", &[]);
    html
}
