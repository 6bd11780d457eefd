//! Announcements, and the message of the day.

use rookery_operations::announce::Text;
use rookery_operations::messages::{self, MessageAudience};
use rookery_operations::{Outcome, Refusal};

use super::fields::{AdminField, AdminForm, FormAnswered, FormFault, RefusedField, YES};
use super::graph::number;
use super::{FormDone, Visit};
use crate::ask::OperationAnswer;
use crate::html::Html;

/// Returns the page with the forms.
pub async fn page(visit: &Visit) -> Outcome<Html> {
    let mut html = Html::of("<h1>Messages</h1>", &[]);
    html.push(&announcement(visit).await?);
    for domain in visit.domains.iter().filter(|domain| visit.shared.has_module(domain, "announce")) {
        let of = domain.clone();
        let text =
            visit.shared.ask(move |world, answer| messages::motd(world, &of, |_, text| answer.complete(text))).await?;
        html.push(&motd(visit, domain, text.as_ref()));
    }
    Ok(html)
}

/// Does what a form of the page asks for.
pub async fn say(visit: &Visit) -> FormAnswered {
    let domain = visit.domain().at("domain")?;
    if !visit.shared.has_module(&domain, "announce") {
        return Err(Refusal::Off(format!("the module `announce` is off in {domain}"))).at("domain");
    }
    match visit.value("act") {
        "announce" => announce(visit, domain).await,
        "motd" => set_motd(visit, domain, Some(text(visit)?)).await,
        "no-motd" => set_motd(visit, domain, None).await,
        _ => Err(Refusal::Impossible("the form asks for nothing that there is".into()).into()),
    }
}

async fn announce(visit: &Visit, domain: String) -> FormAnswered {
    let text = text(visit)?;
    let (to, whom) = match visit.value("to") {
        "all" => {
            let accounts = accounts(visit, &domain).await?;
            if visit.value("sure") != YES {
                let words = format!("this goes to {accounts}: tick the box below and send it again");
                return Err(Refusal::Impossible(words)).at("to");
            }
            (MessageAudience::All, accounts)
        }
        _ => (MessageAudience::Online, "those who are online".to_owned()),
    };
    visit.note(&domain, format!("announced to {whom}: {}", text.body));
    let work = move |world: &mut _, answer: OperationAnswer<()>| {
        messages::announce(world, &domain, to, &text);
        answer.complete(Ok(()));
    };
    visit.shared.ask(work).await?;
    Ok(FormDone::new("/messages", format!("The announcement is on its way to {whom}.")))
}

/// Returns the number of accounts of a domain, in words.
async fn accounts(visit: &Visit, domain: &str) -> Outcome<String> {
    let count = visit.shared.wait(visit.shared.stores.accounts.count(Some(domain))).await?;
    Ok(match count {
        1 => "1 account".to_owned(),
        count => format!("{} accounts", number(count as f64)),
    })
}

async fn set_motd(visit: &Visit, domain: String, text: Option<Text>) -> FormAnswered {
    let (act, words) = match text {
        Some(_) => ("set the message of the day", "The message of the day is set."),
        None => ("removed the message of the day", "There is no message of the day any more."),
    };
    let of = domain.clone();
    visit.shared.ask(move |world, answer| messages::set_motd(world, &of, text, |_, set| answer.complete(set))).await?;
    visit.note(&domain, act.to_owned());
    Ok(FormDone::new("/messages", words))
}

fn text(visit: &Visit) -> Result<Text, FormFault> {
    // Browsers send lines that end with CR and LF.
    let body = visit.value("body").replace("\r\n", "\n").trim().to_owned();
    let subject = Some(visit.value("subject").trim().to_owned()).filter(|subject| !subject.is_empty());
    let says = |text: &str| messages::is_sayable(text) && text.chars().count() <= MAX_TEXT;
    match !body.is_empty() && says(&body) && subject.as_deref().is_none_or(says) {
        true => Ok(Text { subject, body }),
        false => Err(Refusal::Impossible(format!("there must be a text, of at most {MAX_TEXT} characters"))).at("body"),
    }
}

async fn announcement(visit: &Visit) -> Outcome<Html> {
    let all = match &visit.domains[..] {
        [domain] => format!("all {}, those who are away later", accounts(visit, domain).await?),
        _ => "all accounts, those who are away later".to_owned(),
    };
    let mut html = Html::of("<section class=\"card\"><h2>Announce</h2>", &[]);
    let form = AdminForm::begin(visit, "announce", "column", "/messages", &mut html);
    form.domain("", &mut html);
    let to = AdminField { name: "to", label: "To", ..AdminField::default() };
    form.choice(to, &[("online", "those who are online"), ("all", &all)], &mut html);
    if form.returned().is_some_and(|returned| returned.field == Some("to")) {
        form.check(("sure", "Yes, send it to all of them"), false, &mut html);
    }
    form.input(
        AdminField { name: "subject", label: "Subject", rules: "maxlength=\"500\"", ..AdminField::default() },
        &mut html,
    );
    form.text(AdminField { name: "body", label: "Text", rules: "required", ..AdminField::default() }, &mut html);
    html.add("<div><button name=\"act\" value=\"announce\">Send</button></div></form></section>", &[]);
    Ok(html)
}

fn motd(visit: &Visit, domain: &str, text: Option<&Text>) -> Html {
    let mut html = Html::of(
        "<section class=\"card\"><h2>Message of the day of {}</h2>\
         <p class=\"faint\">Everybody gets it once: those who are here now, the others when they come.</p>",
        &[&domain],
    );
    let id = format!("motd-{domain}");
    let form = AdminForm::begin(visit, &id, "column", "/messages", &mut html);
    html.add("<input type=\"hidden\" name=\"domain\" value=\"{}\">", &[&domain]);
    let value = text.and_then(|text| text.subject.as_deref()).unwrap_or_default();
    let subject =
        AdminField { name: "subject", label: "Subject", value, rules: "maxlength=\"500\"", ..AdminField::default() };
    form.input(subject, &mut html);
    let value = text.map_or("", |text| &text.body);
    form.text(AdminField { name: "body", label: "Text", value, ..AdminField::default() }, &mut html);
    html.add("<div class=\"acts\"><button name=\"act\" value=\"motd\">Set</button>", &[]);
    if text.is_some() {
        html.add("<button class=\"quiet\" name=\"act\" value=\"no-motd\">Remove</button>", &[]);
    }
    html.add("</div></form></section>", &[]);
    html
}

/// Characters of a text.
const MAX_TEXT: usize = 10_000;
