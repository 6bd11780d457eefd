//! Links that let somebody in, once.

use rookery_base::date;
use rookery_jid::{Jid, prepare_local};
use rookery_operations::invitations::uri;
use rookery_operations::invitations::{self, LinkPurpose};
use rookery_operations::{Outcome, Refusal};

use super::frame::{domain_choice, token};
use super::{Done, Visit};
use crate::ask::now_ms;
use crate::html::Html;

/// Returns the page with the forms.
pub async fn page(visit: &Visit) -> Outcome<Html> {
    let mut html = Html::of("<h1>Invitations</h1>", &[]);
    let off: Vec<_> = visit.domains.iter().filter(|domain| !visit.shared.has_module(domain, "register")).collect();
    for domain in off {
        html.add(
            "<p class=\"notice bad\">Links need the module <code>register</code>, which is off in {}: set <code>enabled = true</code> below \
             <code>[modules.register]</code>, and <code>allow_creation = false</code> to keep others out.</p>",
            &[domain],
        );
    }
    html.add("<div class=\"cards\">", &[]);
    html.add("<section class=\"card\"><h2>To create an account</h2><form id=\"invite\" class=\"column\" method=\"post\" action=\"/admin/invitations\">", &[]);
    html.push(&token(&visit.seen));
    html.push(&domain_choice(&visit.domains, ""));
    html.add(
        "<label>Name, if it is to be this one <input name=\"name\" autocapitalize=\"none\"></label>\
         <label>Good for how many days <input name=\"days\" type=\"number\" min=\"1\" max=\"3650\" value=\"7\"></label>\
         <button name=\"act\" value=\"invite\">Make a link</button></form></section>",
        &[],
    );
    html.add("<section class=\"card\"><h2>To set a new password</h2><form id=\"reset\" class=\"column\" method=\"post\" action=\"/admin/invitations\">", &[]);
    html.push(&token(&visit.seen));
    html.add(
        "<label>Account <input name=\"jid\" value=\"{}\" placeholder=\"alice@example.org\" autocapitalize=\"none\" required></label>\
         <label>Good for how many days <input name=\"days\" type=\"number\" min=\"1\" max=\"3650\" value=\"2\"></label>\
         <button name=\"act\" value=\"reset\">Make a link</button></form></section></div>",
        &[&visit.value("jid")],
    );
    Ok(html)
}

/// Makes a link.
pub async fn make(visit: &Visit) -> Outcome<Done> {
    let (domain, wanted, act) = match visit.value("act") {
        "reset" => {
            let account: Jid = visit.address()?;
            (
                account.domain().to_owned(),
                LinkPurpose::Password(account.clone()),
                format!("made a link to set a password: {account}"),
            )
        }
        _ => {
            let domain = visit.domain()?;
            let local = Some(visit.value("name").trim()).filter(|name| !name.is_empty()).map(prepare_local).transpose();
            let local =
                local.map_err(|error| Refusal::Impossible(format!("no account can have this name: {error}")))?;
            let local = local.map(|local| local.into_owned());
            let what = local.as_deref().map_or_else(|| domain.clone(), |local| format!("{local}@{domain}"));
            (
                domain.clone(),
                LinkPurpose::Account { domain, local, inviter: None },
                format!("made an invitation: {what}"),
            )
        }
    };
    if !visit.shared.has_module(&domain, "register") {
        return Err(Refusal::Off(format!("the module `register` is off in {domain}: nobody could use the link")));
    }
    let days = visit.value("days").parse().ok().filter(|days| (1..=MOST_DAYS).contains(days));
    let days = days.ok_or_else(|| Refusal::Impossible(format!("a link is good for 1 to {MOST_DAYS} days")))?;
    let made = visit.shared.wait(invitations::make(&visit.shared.stores, wanted, days, now_ms())).await??;
    visit.note(&domain, act);
    let words = format!("This link is good once, until {}.", date::timestamp(made.expires_ms));
    let link = visit.shared.pages(&domain).map_or_else(|| uri(&made, false), |pages| invitations::page(&made, &pages));
    Ok(Done { copy: Some(link), ..Done::new("/invitations", words) })
}

/// Days that a link may be good.
const MOST_DAYS: u64 = 3650;
