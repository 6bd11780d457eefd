//! Announcements, and the message of the day.

use rookery_operations::announce::Text;
use rookery_operations::messages::{self, Audience};
use rookery_operations::{Outcome, Refusal};

use super::frame::{domain_choice, token};
use super::{Done, Visit};
use crate::ask::Answer;
use crate::html::Html;

/// Returns the page with the forms.
pub async fn page(visit: &Visit) -> Outcome<Html> {
    let mut html = Html::of("<h1>Messages</h1><div class=\"cards\">", &[]);
    html.push(&announcement(visit));
    html.add("</div>", &[]);
    for domain in visit.domains.iter().filter(|domain| visit.shared.has_module(domain, "announce")) {
        let of = domain.clone();
        let text =
            visit.shared.ask(move |world, answer| messages::motd(world, &of, |_, text| answer.complete(text))).await?;
        html.push(&motd(visit, domain, text.as_ref()));
    }
    Ok(html)
}

/// Does what a form of the page asks for.
pub async fn say(visit: &Visit) -> Outcome<Done> {
    let domain = visit.domain()?;
    if !visit.shared.has_module(&domain, "announce") {
        return Err(Refusal::Off(format!("the module `announce` is off in {domain}")));
    }
    match visit.value("act") {
        "announce" => announce(visit, domain).await,
        "motd" => set_motd(visit, domain, Some(text(visit)?)).await,
        "no-motd" => set_motd(visit, domain, None).await,
        _ => Err(Refusal::Impossible("the form asks for nothing that there is".into())),
    }
}

async fn announce(visit: &Visit, domain: String) -> Outcome<Done> {
    let text = text(visit)?;
    let (to, whom) = match visit.value("to") {
        "all" => (Audience::All, "all accounts"),
        _ => (Audience::Online, "who is online"),
    };
    visit.note(&domain, format!("announced to {whom}: {}", text.body));
    let work = move |world: &mut _, answer: Answer<()>| {
        messages::announce(world, &domain, to, &text);
        answer.complete(Ok(()));
    };
    visit.shared.ask(work).await?;
    Ok(Done::new("/messages", format!("The announcement is on its way to {whom}.")))
}

async fn set_motd(visit: &Visit, domain: String, text: Option<Text>) -> Outcome<Done> {
    let (act, words) = match text {
        Some(_) => ("set the message of the day", "The message of the day is set."),
        None => ("removed the message of the day", "There is no message of the day any more."),
    };
    let of = domain.clone();
    visit.shared.ask(move |world, answer| messages::set_motd(world, &of, text, |_, set| answer.complete(set))).await?;
    visit.note(&domain, act.to_owned());
    Ok(Done::new("/messages", words))
}

fn text(visit: &Visit) -> Outcome<Text> {
    // Browsers send lines that end with CR and LF.
    let body = visit.value("body").replace("\r\n", "\n").trim().to_owned();
    let subject = Some(visit.value("subject").trim().to_owned()).filter(|subject| !subject.is_empty());
    let says = |text: &str| messages::is_sayable(text) && text.chars().count() <= MAX_TEXT;
    match !body.is_empty() && says(&body) && subject.as_deref().is_none_or(says) {
        true => Ok(Text { subject, body }),
        false => Err(Refusal::Impossible(format!("there must be a text, of at most {MAX_TEXT} characters"))),
    }
}

fn announcement(visit: &Visit) -> Html {
    let mut html = Html::of(
        "<section class=\"card\"><h2>Announce</h2><form id=\"announce\" class=\"column\" method=\"post\" action=\"/admin/messages\">",
        &[],
    );
    html.push(&token(&visit.seen));
    html.push(&domain_choice(&visit.domains, ""));
    html.add(
        "<label>To <select name=\"to\"><option value=\"online\">who is online</option>\
         <option value=\"all\">all accounts, who is away later</option></select></label>\
         <label>Subject <input name=\"subject\" maxlength=\"500\"></label>\
         <label>Text <textarea name=\"body\" required></textarea></label>\
         <button name=\"act\" value=\"announce\">Send</button></form></section>",
        &[],
    );
    html
}

fn motd(visit: &Visit, domain: &str, text: Option<&Text>) -> Html {
    let mut html = Html::of(
        "<section class=\"card\"><h2>Message of the day of {}</h2>\
         <p class=\"faint\">Everybody gets it once: who is here now, the others when they come.</p>\
         <form id=\"motd\" class=\"column\" method=\"post\" action=\"/admin/messages\">",
        &[&domain],
    );
    html.push(&token(&visit.seen));
    let body = text.map_or("", |text| &text.body);
    let subject = text.and_then(|text| text.subject.as_deref()).unwrap_or_default();
    html.add(
        "<input type=\"hidden\" name=\"domain\" value=\"{}\">\
         <label>Subject <input name=\"subject\" value=\"{}\" maxlength=\"500\"></label>\
         <label>Text <textarea name=\"body\">{}</textarea></label>\
         <div class=\"acts\"><button name=\"act\" value=\"motd\">Set</button>",
        &[&domain, &subject, &body],
    );
    if text.is_some() {
        html.add("<button class=\"quiet\" name=\"act\" value=\"no-motd\">Remove</button>", &[]);
    }
    html.add("</div></form></section>", &[]);
    html
}

/// Characters of a text.
const MAX_TEXT: usize = 10_000;
