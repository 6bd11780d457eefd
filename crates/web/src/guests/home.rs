//! The first page: the name of the server, and links to its other pages.

use hyper::{Response, StatusCode};

use super::apps;
use super::guest::{ACCOUNT, WebGuest};
use crate::html::Html;
use crate::reply::Body;

/// Returns the first page of the server, for visitors without a client.
pub async fn page(guest: &WebGuest) -> Response<Body> {
    let (domain, words) = (guest.domain(), guest.words());
    let frame = guest.frame(&domain);
    let mut main = Html::of("<section class=\"card\"><h1>", &[]);
    main.add(words.home_title, &[&frame.server]);
    main.add("</h1><p>{}</p><p>{}</p><p class=\"acts\">", &[&words.home_text, &words.home_account]);
    main.push(&chat_button(guest).await);
    main.add("<a class=\"button quiet\" href=\"{}\">{}</a>", &[&ACCOUNT, &words.account]);
    if guest.may_administer {
        main.add("<a class=\"button quiet\" href=\"/admin\">{}</a>", &[&words.administration]);
    }
    main.add("</p></section>", &[]);
    main.push(&apps::card(guest.device, words));
    frame.response(StatusCode::OK, &domain, &main)
}

/// Returns the link to the chat page, if it is available.
pub async fn chat_button(guest: &WebGuest) -> Html {
    match guest.shared.settings().chat && guest.shared.chat.is_installed().await {
        true => Html::of("<a class=\"button\" href=\"/chat\">{}</a>", &[&guest.words().open_chat]),
        false => Html::default(),
    }
}
