//! Links that admit one person, and can be used once.

use rookery_base::Map;
use rookery_jid::{Jid, prepare_local};
use rookery_operations::invitations::uri;
use rookery_operations::invitations::{self, LinkPurpose};
use rookery_operations::{Outcome, Refusal};
use rookery_store::{Invitation, Purpose};

use super::fields::{AdminField, AdminForm, FormAnswered, RefusedField};
use super::frame::{moment, token, utc};
use super::outcome::RefusalWords;
use super::users::NAME_RULES;
use super::{FormDone, Visit};
use crate::ask::now_ms;
use crate::form::encode;
use crate::html::Html;
use crate::language::fill;
use crate::words::AdminWords;

/// Returns the page with the forms.
pub async fn page(visit: &Visit) -> Outcome<Html> {
    let words = visit.words();
    let mut html = Html::of("<h1>{}</h1>", &[&words.invitations]);
    let off: Vec<_> = visit.domains.iter().filter(|domain| !visit.shared.has_module(domain, "register")).collect();
    for domain in off {
        html.add("<p class=\"notice bad\">", &[]);
        html.text(words.register_off, &[domain]);
        html.add("</p>", &[]);
    }
    html.add("<div class=\"cards\"><section class=\"card\"><h2>{}</h2>", &[&words.to_create]);
    let form = AdminForm::begin(visit, "invite", "column", "/invitations", &mut html);
    form.domain("", &mut html);
    let hint = words.only_for_name;
    form.input(
        AdminField { name: "name", label: words.name, hint, rules: OPTIONAL_NAME, ..AdminField::default() },
        &mut html,
    );
    form.input(AdminField { value: "7", ..days(words) }, &mut html);
    html.add("<div><button name=\"act\" value=\"invite\">{}</button></div></form></section>", &[&words.make_link]);
    html.add("<section class=\"card\"><h2>{}</h2>", &[&words.to_reset]);
    let form = AdminForm::begin(visit, "reset", "column", "/invitations", &mut html);
    let account = AdminField {
        name: "jid",
        label: words.account,
        value: visit.value("jid"),
        rules: NAME_RULES,
        ..AdminField::default()
    };
    form.input(account, &mut html);
    form.input(AdminField { value: "2", ..days(words) }, &mut html);
    html.add("<div><button name=\"act\" value=\"reset\">{}</button></div></form></section></div>", &[&words.make_link]);
    let makers = visit.shared.wait(invitations::makers(&visit.shared.stores)).await?;
    for domain in &visit.domains {
        html.push(&open(visit, domain, &makers).await?);
    }
    Ok(html)
}

/// Processes a form of the page: makes a link, or revokes one.
pub async fn change(visit: &Visit) -> FormAnswered {
    match visit.value("act") {
        "revoke" => Ok(revoke(visit).await?),
        _ => make(visit).await,
    }
}

/// Returns the list of the valid links of a domain.
async fn open(visit: &Visit, domain: &str, makers: &Map<String, String>) -> Outcome<Html> {
    let listed = visit.shared.wait(visit.shared.stores.invitations.open(domain, now_ms(), MOST_SHOWN + 1)).await?;
    let words = visit.words();
    let mut html = Html::of("<section class=\"card\"><h2>", &[]);
    html.text(words.open_links, &[&domain]);
    html.add("</h2>", &[]);
    if listed.is_empty() {
        html.add("<p class=\"faint\">{}</p></section>", &[&words.there_are_none]);
        return Ok(html);
    }
    html.add(
        "<div class=\"scroll\"><table class=\"invitations\"><thead><tr><th>{}<th>{}<th>{}<th>{}<td></tr></thead><tbody>",
        &[&words.for_whom, &words.made_by, &words.good_until, &words.link],
    );
    for invitation in listed.iter().take(MOST_SHOWN) {
        html.push(&line(visit, invitation, makers.get(&invitation.token)));
    }
    html.add("</tbody></table></div>", &[]);
    if listed.len() > MOST_SHOWN {
        html.add("<p class=\"faint\">", &[]);
        html.text(words.these_end_first, &[&MOST_SHOWN]);
        html.add("</p>", &[]);
    }
    html.add("</section>", &[]);
    Ok(html)
}

fn line(visit: &Visit, invitation: &Invitation, maker: Option<&String>) -> Html {
    let words = visit.words();
    let administrator = || maker.map_or(words.an_administrator, String::as_str).to_owned();
    let (what, by) = match (&invitation.purpose, &invitation.owner) {
        (Purpose::Password, Some(owner)) => (fill(words.new_password_of, &[owner]), administrator()),
        (Purpose::Password, None) => (words.a_new_password.to_owned(), administrator()),
        (Purpose::Account(local), owner) => (
            local
                .as_ref()
                .map_or_else(|| words.a_new_account.to_owned(), |local| format!("{local}@{}", invitation.domain)),
            owner.as_ref().map_or_else(administrator, Jid::to_string),
        ),
    };
    let mut html = Html::of(
        "<tr><td data-label=\"{}\">{}<td data-label=\"{}\">{}<td data-label=\"{}\" class=\"when\">",
        &[&words.for_whom, &what, &words.made_by, &by, &words.good_until],
    );
    html.push(&moment(invitation.expires_ms));
    html.add(
        "<td data-label=\"{}\"><details><summary>{}</summary><code>{}</code></details><td>\
         <form method=\"post\" action=\"/admin/invitations\">",
        &[&words.link, &words.show, &link(visit, invitation)],
    );
    html.push(&token(&visit.seen));
    html.add(
        "<input type=\"hidden\" name=\"token\" value=\"{}\">\
         <button class=\"quiet\" name=\"act\" value=\"revoke\" aria-label=\"{}\">{}</button></form></tr>",
        &[&invitation.token, &fill(words.revoke_one, &[&what]), &words.revoke],
    );
    html
}

/// Returns the link for an invited person: the address of a page or, without a page, one that a
/// client opens.
fn link(visit: &Visit, invitation: &Invitation) -> String {
    let pages = visit.shared.pages(&invitation.domain);
    pages.map_or_else(|| uri(invitation, false), |pages| invitations::page(invitation, &pages))
}

async fn revoke(visit: &Visit) -> Outcome<FormDone> {
    let revoked = invitations::revoke(&visit.shared.stores, &visit.domains, visit.value("token"), now_ms());
    let gone = || Refusal::Missing(visit.words().link_gone.into());
    let (taken, act) = visit.shared.wait(revoked).await?.ok_or_else(gone)?;
    visit.note(&taken.domain, act);
    Ok(FormDone::new("/invitations", visit.words().link_revoked))
}

/// Returns the account that the form names, by its address or, if there is only one domain, by its
/// name.
fn account(visit: &Visit) -> Outcome<Jid> {
    let written = visit.value("jid").trim();
    match &visit.domains[..] {
        [domain] if !written.contains('@') => visit.address_of(&format!("{written}@{domain}")),
        _ => visit.address_of(written),
    }
}

/// Makes a link.
async fn make(visit: &Visit) -> FormAnswered {
    let words = visit.words();
    let (domain, wanted, act) = match visit.value("act") {
        "reset" => {
            let account = account(visit).at("jid")?;
            (
                account.domain().to_owned(),
                LinkPurpose::Password(account.clone()),
                format!("created a link to set a password: {account}"),
            )
        }
        _ => {
            let domain = visit.domain().at("domain")?;
            let local = Some(visit.value("name").trim()).filter(|name| !name.is_empty()).map(prepare_local).transpose();
            let local = local.map_err(|_| Refusal::Impossible(words.name_impossible.into())).at("name")?;
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
        return Err(Refusal::Off(fill(words.link_useless, &[&domain])).into());
    }
    let days = visit.value("days").parse().ok().filter(|days| (1..=MOST_DAYS).contains(days));
    let days = days.ok_or_else(|| Refusal::Impossible(fill(words.days_bounds, &[&MOST_DAYS]))).at("days")?;
    let about = if visit.value("act") == "reset" { "jid" } else { "name" };
    let whom = match &wanted {
        LinkPurpose::Password(account) => account.to_string(),
        LinkPurpose::Account { local, domain, .. } => format!("{}@{domain}", local.as_deref().unwrap_or_default()),
    };
    let made = visit.shared.wait(invitations::make(&visit.shared.stores, wanted, days, now_ms())).await?;
    let refused = RefusalWords { missing: words.no_account, impossible: words.name_impossible };
    let made = made.map_err(|refusal| visit.in_words(refusal, &whom, refused)).at(about)?;
    visit.shared.remember_maker(&made, visit.seen.account.as_str()).await;
    visit.note(&domain, act);
    let (link, until) = (link(visit, &made), utc(made.expires_ms));
    let mail = mail(words, &domain, &link, &until);
    let said = fill(words.good_once, &[&until]);
    Ok(FormDone { copy: Some(link), mail: Some(mail), ..FormDone::new("/invitations", said) })
}

/// Returns the address that starts a mail with a link (RFC 6068).
fn mail(words: &AdminWords, domain: &str, link: &str, until: &str) -> String {
    let text = format!("{}\r\n\r\n{link}\r\n", fill(words.mail_text, &[&until]));
    format!("mailto:?subject={}&body={}", encode(&fill(words.mail_subject, &[&domain])), encode(&text))
}

/// Returns the field for the validity of a link in days.
fn days(words: &AdminWords) -> AdminField<'static> {
    AdminField {
        name: "days",
        label: words.days_good,
        rules: "type=\"number\" min=\"1\" max=\"3650\" required",
        ..AdminField::default()
    }
}
/// Attributes of a field for a name that may be left empty.
const OPTIONAL_NAME: &str = "autocapitalize=\"none\" autocomplete=\"off\" spellcheck=\"false\"";
/// The most days that a link may be valid.
const MOST_DAYS: u64 = 3650;
/// The most links of a domain that are listed.
const MOST_SHOWN: usize = 200;
