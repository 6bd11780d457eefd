//! Announcements, and the message of the day.

use rookery_operations::announce::Text;
use rookery_operations::messages::{self, MessageAudience};
use rookery_operations::{Outcome, Refusal};

use super::fields::{AdminField, AdminForm, FormAnswered, FormFault, RefusedField, YES};
use super::frame::moment;
use super::{FormDone, Visit};
use crate::ask::OperationAnswer;
use crate::html::Html;
use crate::language::fill;

/// Returns the page with the forms.
pub async fn page(visit: &Visit) -> Outcome<Html> {
    let mut html = Html::of("<h1>{}</h1>", &[&visit.words().messages]);
    html.push(&announcement(visit).await?);
    for domain in visit.domains.iter().filter(|domain| visit.shared.has_module(domain, "announce")) {
        let of = domain.clone();
        let text =
            visit.shared.ask(move |world, answer| messages::motd(world, &of, |_, text| answer.complete(text))).await?;
        html.push(&motd(visit, domain, text.as_ref()));
    }
    html.push(&past(visit));
    Ok(html)
}

/// Returns the latest announcements that the action log still has.
fn past(visit: &Visit) -> Html {
    let words = visit.words();
    let entries = visit.shared.action_log.recent(&visit.domains, false, usize::MAX);
    let past: Vec<_> = entries.iter().filter_map(|entry| Some((entry, PastAnnouncement::read(&entry.act)?))).collect();
    let mut html = Html::of("<section class=\"card\"><h2>{}</h2>", &[&words.announcements]);
    if past.is_empty() {
        html.add("<p class=\"faint\">{}</p></section>", &[&words.there_are_none]);
        return html;
    }
    html.add(
        "<div class=\"scroll\"><table id=\"announcements\"><thead><tr><th>{}<th>{}<th>{}<th>{}<th>{}</tr></thead><tbody>",
        &[&words.when, &words.who, &words.domain, &words.to, &words.text],
    );
    for (entry, PastAnnouncement { whom, text }) in past.into_iter().take(MOST_PAST) {
        html.add("<tr><td class=\"when\">", &[]);
        html.push(&moment(entry.unix_ms));
        html.add(
            "<td data-label=\"{}\">{}<td data-label=\"{}\">{}<td data-label=\"{}\" lang=\"en\">{}<td data-label=\"{}\">{}</tr>",
            &[&words.who, &entry.who, &words.domain, &entry.domain, &words.to, &whom, &words.text, &text],
        );
    }
    html.add("</tbody></table></div></section>", &[]);
    html
}

/// An announcement in the action log.
#[derive(Debug, PartialEq, Eq)]
struct PastAnnouncement<'e> {
    whom: &'e str,
    /// The beginning of its text.
    text: &'e str,
}

impl<'e> PastAnnouncement<'e> {
    /// Reads an action of the log; `None` if it isn't an announcement.
    fn read(act: &'e str) -> Option<Self> {
        let (whom, text) = act.strip_prefix("announced to ")?.split_once(": ")?;
        Some(Self { whom, text })
    }
}

/// Processes a form of the page.
pub async fn say(visit: &Visit) -> FormAnswered {
    let domain = visit.domain().at("domain")?;
    if !visit.shared.has_module(&domain, "announce") {
        return Err(Refusal::Off(fill(visit.words().module_off, &[&"announce", &domain]))).at("domain");
    }
    match visit.value("act") {
        "announce" => announce(visit, domain).await,
        "motd" => set_motd(visit, domain, Some(text(visit)?)).await,
        "no-motd" => set_motd(visit, domain, None).await,
        _ => Err(Refusal::Impossible(visit.words().no_such_act.into()).into()),
    }
}

async fn announce(visit: &Visit, domain: String) -> FormAnswered {
    let (text, words) = (text(visit)?, visit.words());
    let (to, whom, noted) = match visit.value("to") {
        "all" => {
            let count = accounts(visit, &domain).await?;
            let accounts = visit.language.count(words.count_accounts, count);
            if visit.value("sure") != YES {
                return Err(Refusal::Impossible(fill(words.goes_to, &[&accounts]))).at("to");
            }
            (MessageAudience::All, accounts, format!("all accounts ({count})"))
        }
        _ => {
            let count = visit.shared.online(&domain).await?.len();
            (MessageAudience::Online, words.those_online.to_owned(), format!("those who are online ({count})"))
        }
    };
    visit.note(&domain, format!("announced to {noted}: {}", text.body));
    let work = move |world: &mut _, answer: OperationAnswer<()>| {
        messages::announce(world, &domain, to, &text);
        answer.complete(Ok(()));
    };
    visit.shared.ask(work).await?;
    Ok(FormDone::new("/messages", fill(words.on_its_way, &[&whom])))
}

/// Returns the number of accounts of a domain.
async fn accounts(visit: &Visit, domain: &str) -> Outcome<u64> {
    visit.shared.wait(visit.shared.stores.accounts.count(Some(domain))).await
}

async fn set_motd(visit: &Visit, domain: String, text: Option<Text>) -> FormAnswered {
    let (act, words) = match text {
        Some(_) => ("set the message of the day", visit.words().motd_is_set),
        None => ("removed the message of the day", visit.words().motd_is_gone),
    };
    let of = domain.clone();
    visit.shared.ask(move |world, answer| messages::set_motd(world, &of, text, |_, set| answer.complete(set))).await?;
    visit.note(&domain, act.to_owned());
    Ok(FormDone::new("/messages", words))
}

fn text(visit: &Visit) -> Result<Text, FormFault> {
    // Browsers send lines that end with CR LF.
    let body = visit.value("body").replace("\r\n", "\n").trim().to_owned();
    let subject = Some(visit.value("subject").trim().to_owned()).filter(|subject| !subject.is_empty());
    let says = |text: &str| messages::is_sayable(text) && text.chars().count() <= MAX_TEXT;
    match !body.is_empty() && says(&body) && subject.as_deref().is_none_or(says) {
        true => Ok(Text { subject, body }),
        false => Err(Refusal::Impossible(fill(visit.words().text_bounds, &[&MAX_TEXT]))).at("body"),
    }
}

async fn announcement(visit: &Visit) -> Outcome<Html> {
    let words = visit.words();
    let all = match &visit.domains[..] {
        [domain] => visit.language.count(words.to_all_of, accounts(visit, domain).await?),
        _ => words.to_all.to_owned(),
    };
    let mut html = Html::of("<section class=\"card\"><h2>{}</h2>", &[&words.announce]);
    let form = AdminForm::begin(visit, "announce", "column", "/messages", &mut html);
    form.domain("", &mut html);
    let to = AdminField { name: "to", label: words.to, ..AdminField::default() };
    form.choice(to, &[("online", words.those_online), ("all", &all)], &mut html);
    if form.returned_form().is_some_and(|returned| returned.field == Some("to")) {
        form.check(("sure", words.sure_all), false, &mut html);
    }
    form.input(
        AdminField { name: "subject", label: words.subject, rules: "maxlength=\"500\"", ..AdminField::default() },
        &mut html,
    );
    form.text(AdminField { name: "body", label: words.text, rules: "required", ..AdminField::default() }, &mut html);
    html.add("<div><button name=\"act\" value=\"announce\">{}</button></div></form></section>", &[&words.send]);
    Ok(html)
}

fn motd(visit: &Visit, domain: &str, text: Option<&Text>) -> Html {
    let words = visit.words();
    let mut html = Html::of("<section class=\"card\"><h2>", &[]);
    html.text(words.motd_of, &[&domain]);
    html.add("</h2><p class=\"faint\">{}</p>", &[&words.motd_note]);
    let id = format!("motd-{domain}");
    let form = AdminForm::begin(visit, &id, "column", "/messages", &mut html);
    html.add("<input type=\"hidden\" name=\"domain\" value=\"{}\">", &[&domain]);
    let value = text.and_then(|text| text.subject.as_deref()).unwrap_or_default();
    let subject = AdminField {
        name: "subject",
        label: words.subject,
        value,
        rules: "maxlength=\"500\"",
        ..AdminField::default()
    };
    form.input(subject, &mut html);
    let value = text.map_or("", |text| &text.body);
    form.text(AdminField { name: "body", label: words.text, value, ..AdminField::default() }, &mut html);
    html.add("<div class=\"acts\"><button name=\"act\" value=\"motd\">{}</button>", &[&words.set]);
    if text.is_some() {
        html.add("<button class=\"quiet\" name=\"act\" value=\"no-motd\">{}</button>", &[&words.remove]);
    }
    html.add("</div></form></section>", &[]);
    html
}

/// The most announcements of the past that are shown.
const MOST_PAST: usize = 20;
/// The most characters of a text.
const MAX_TEXT: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_are_found_in_the_journal() {
        let read = PastAnnouncement::read("announced to all accounts (3): Back at noon: late");
        assert_eq!(read, Some(PastAnnouncement { whom: "all accounts (3)", text: "Back at noon: late" }));
        assert_eq!(PastAnnouncement::read("created an account: announced@a.example"), None);
    }
}
