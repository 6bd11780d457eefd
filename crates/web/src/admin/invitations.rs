//! Links that let somebody in, once.

use rookery_base::date;
use rookery_jid::{Jid, prepare_local};
use rookery_operations::invitations::uri;
use rookery_operations::invitations::{self, LinkPurpose};
use rookery_operations::{Outcome, Refusal};
use rookery_store::{Invitation, Purpose};

use super::fields::{AdminField, AdminForm, FormAnswered, RefusedField};
use super::frame::{moment, token};
use super::users::NAME_RULES;
use super::{FormDone, Visit};
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
    html.add("<div class=\"cards\"><section class=\"card\"><h2>To create an account</h2>", &[]);
    let form = AdminForm::begin(visit, "invite", "column", "/invitations", &mut html);
    form.domain("", &mut html);
    let hint = "Only for an account of this name; if it is empty, they choose one.";
    form.input(
        AdminField { name: "name", label: "Name", hint, rules: OPTIONAL_NAME, ..AdminField::default() },
        &mut html,
    );
    form.input(AdminField { value: "7", ..DAYS }, &mut html);
    html.add("<div><button name=\"act\" value=\"invite\">Make a link</button></div></form></section>", &[]);
    html.add("<section class=\"card\"><h2>To set a new password</h2>", &[]);
    let form = AdminForm::begin(visit, "reset", "column", "/invitations", &mut html);
    let account = AdminField {
        name: "jid",
        label: "Account",
        value: visit.value("jid"),
        rules: NAME_RULES,
        ..AdminField::default()
    };
    form.input(account, &mut html);
    form.input(AdminField { value: "2", ..DAYS }, &mut html);
    html.add("<div><button name=\"act\" value=\"reset\">Make a link</button></div></form></section></div>", &[]);
    for domain in &visit.domains {
        html.push(&open(visit, domain).await?);
    }
    Ok(html)
}

/// Does what a form of the page asks for: makes a link, or takes one back.
pub async fn change(visit: &Visit) -> FormAnswered {
    match visit.value("act") {
        "revoke" => Ok(revoke(visit).await?),
        _ => make(visit).await,
    }
}

/// Returns the list of the links of a domain that are good.
async fn open(visit: &Visit, domain: &str) -> Outcome<Html> {
    let listed = visit.shared.wait(visit.shared.stores.invitations.open(domain, now_ms(), MOST_SHOWN + 1)).await?;
    let mut html = Html::of("<section class=\"card\"><h2>Open links of {}</h2>", &[&domain]);
    if listed.is_empty() {
        html.add("<p class=\"faint\">There are none.</p></section>", &[]);
        return Ok(html);
    }
    html.add(
        "<div class=\"scroll\"><table class=\"invitations\"><thead><tr><th>For<th>Made by<th>Good until<th>Link<td></tr></thead><tbody>",
        &[],
    );
    for invitation in listed.iter().take(MOST_SHOWN) {
        html.push(&line(visit, invitation));
    }
    html.add("</tbody></table></div>", &[]);
    if listed.len() > MOST_SHOWN {
        html.add("<p class=\"faint\">These are the {} that end first; there are more.</p>", &[&MOST_SHOWN]);
    }
    html.add("</section>", &[]);
    Ok(html)
}

fn line(visit: &Visit, invitation: &Invitation) -> Html {
    let (what, by) = match (&invitation.purpose, &invitation.owner) {
        (Purpose::Password, Some(owner)) => (format!("a new password of {owner}"), "an administrator".to_owned()),
        (Purpose::Password, None) => ("a new password".to_owned(), "an administrator".to_owned()),
        (Purpose::Account(local), owner) => (
            local.as_ref().map_or_else(|| "a new account".to_owned(), |local| format!("{local}@{}", invitation.domain)),
            owner.as_ref().map_or_else(|| "an administrator".to_owned(), Jid::to_string),
        ),
    };
    let mut html = Html::of(
        "<tr><td data-label=\"For\">{}<td data-label=\"Made by\">{}<td data-label=\"Good until\" class=\"when\">",
        &[&what, &by],
    );
    html.push(&moment(invitation.expires_ms));
    html.add(
        "<td data-label=\"Link\"><details><summary>Show</summary><code>{}</code></details><td>\
         <form method=\"post\" action=\"/admin/invitations\">",
        &[&link(visit, invitation)],
    );
    html.push(&token(&visit.seen));
    html.add(
        "<input type=\"hidden\" name=\"token\" value=\"{}\">\
         <button class=\"quiet\" name=\"act\" value=\"revoke\" aria-label=\"Revoke the link for {}\">Revoke</button></form></tr>",
        &[&invitation.token, &what],
    );
    html
}

/// Returns what somebody gets who is let in: the address of a page, or what a client opens.
fn link(visit: &Visit, invitation: &Invitation) -> String {
    let pages = visit.shared.pages(&invitation.domain);
    pages.map_or_else(|| uri(invitation, false), |pages| invitations::page(invitation, &pages))
}

async fn revoke(visit: &Visit) -> Outcome<FormDone> {
    let (stores, wanted) = (&visit.shared.stores, visit.value("token"));
    let gone = || Refusal::Missing("the link is used or has expired, or was revoked".into());
    let found = visit.shared.wait(stores.invitations.get(wanted, now_ms())).await?;
    let found = found.filter(|found| visit.domains.contains(&found.domain)).ok_or_else(gone)?;
    let taken = visit.shared.wait(stores.invitations.take(&found.token, now_ms())).await?.ok_or_else(gone)?;
    let act = match (&taken.purpose, &taken.owner) {
        (Purpose::Password, Some(owner)) => format!("revoked a link to set a password: {owner}"),
        (Purpose::Account(Some(local)), _) => format!("revoked an invitation: {local}@{}", taken.domain),
        _ => format!("revoked an invitation: {}", taken.domain),
    };
    visit.note(&taken.domain, act);
    Ok(FormDone::new("/invitations", "The link lets nobody in any more."))
}

/// Returns the account that the form names, by its address or, where there is one domain only, by
/// its name.
fn account(visit: &Visit) -> Outcome<Jid> {
    let written = visit.value("jid").trim();
    match &visit.domains[..] {
        [domain] if !written.contains('@') => visit.address_of(&format!("{written}@{domain}")),
        _ => visit.address_of(written),
    }
}

/// Makes a link.
async fn make(visit: &Visit) -> FormAnswered {
    let (domain, wanted, act) = match visit.value("act") {
        "reset" => {
            let account = account(visit).at("jid")?;
            (
                account.domain().to_owned(),
                LinkPurpose::Password(account.clone()),
                format!("made a link to set a password: {account}"),
            )
        }
        _ => {
            let domain = visit.domain().at("domain")?;
            let local = Some(visit.value("name").trim()).filter(|name| !name.is_empty()).map(prepare_local).transpose();
            let impossible = |error| Refusal::Impossible(format!("no account can have this name: {error}"));
            let local = local.map_err(impossible).at("name")?;
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
        let words = format!("the module `register` is off in {domain}: nobody could use the link");
        return Err(Refusal::Off(words).into());
    }
    let days = visit.value("days").parse().ok().filter(|days| (1..=MOST_DAYS).contains(days));
    let days =
        days.ok_or_else(|| Refusal::Impossible(format!("a link is good for 1 to {MOST_DAYS} days"))).at("days")?;
    let about = if visit.value("act") == "reset" { "jid" } else { "name" };
    let made = visit.shared.wait(invitations::make(&visit.shared.stores, wanted, days, now_ms())).await?.at(about)?;
    visit.note(&domain, act);
    let words = format!("This link is good once, until {}.", date::timestamp(made.expires_ms));
    Ok(FormDone { copy: Some(link(visit, &made)), ..FormDone::new("/invitations", words) })
}

/// The field for the days that a link is good.
const DAYS: AdminField<'static> = AdminField {
    name: "days",
    label: "Days for which it is good",
    value: "",
    hint: "",
    rules: "type=\"number\" min=\"1\" max=\"3650\" required",
};
/// Attributes of a field for a name that may be left empty.
const OPTIONAL_NAME: &str = "autocapitalize=\"none\" autocomplete=\"off\" spellcheck=\"false\"";
/// Days that a link may be good.
const MOST_DAYS: u64 = 3650;
/// Links of a domain that are listed.
const MOST_SHOWN: usize = 200;
