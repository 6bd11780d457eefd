//! Abuse reports (XEP-0377): who reports whom and why, and the actions on them.

use rookery_jid::Jid;
use rookery_operations::reports::{self, AbuseReport};
use rookery_operations::{Outcome, Refusal, users};

use super::fields::FormAnswered;
use super::frame::{away, token};
use super::{FormDone, Visit};
use crate::WebShared;
use crate::form::encode;
use crate::html::Html;
use crate::language::fill;

/// Returns the number of reports that wait for the administrators of some domains.
///
/// # Errors
/// The store doesn't answer.
pub async fn count(shared: &WebShared, domains: &[String]) -> Outcome<usize> {
    let mut count = 0;
    for domain in domains {
        count += shared.wait(reports::list(&shared.stores, domain)).await?.len();
    }
    Ok(count)
}

/// Returns the page with all reports, newest first.
pub async fn page(visit: &Visit) -> Outcome<Html> {
    let words = visit.words();
    let mut html = Html::of("<h1>{}</h1><p class=\"faint\">{}</p>", &[&words.abuse_reports, &words.abuse_note]);
    if visit.reports == 0 {
        html.add("<p id=\"none\" class=\"card\">{}</p>", &[&words.there_are_none]);
    }
    for domain in &visit.domains {
        let listed = visit.shared.wait(reports::list(&visit.shared.stores, domain)).await?;
        if listed.is_empty() {
            continue;
        }
        html.add("<section class=\"card\"><h2>{}</h2><ul class=\"reports\">", &[domain]);
        for report in listed.iter().rev() {
            html.push(&item(visit, domain, report));
        }
        html.add("</ul></section>", &[]);
    }
    Ok(html)
}

/// Carries out the action of a button.
pub async fn change(visit: &Visit) -> FormAnswered {
    let (domain, words) = (visit.domain()?, visit.words());
    let (stores, wanted) = (&visit.shared.stores, visit.value("report"));
    let listed = visit.shared.wait(reports::list(stores, &domain)).await?;
    let gone = || Refusal::Missing(words.dealt_with.into());
    let report = listed.into_iter().find(|report| report.id == wanted).ok_or_else(gone)?;
    let about = report.about.to_bare();
    match visit.value("act") {
        "dismiss" => {
            visit.shared.wait(reports::dismiss(stores, &domain, &report.id)).await?;
            visit.note(&domain, format!("dismissed a report of abuse about {}", report.about));
            Ok(FormDone::new("/reports", words.is_dismissed))
        }
        "settle" => {
            let settled = visit.shared.wait(reports::settle(stores, &domain, about.as_ref())).await?;
            visit.note(&domain, format!("dismissed {settled} reports of abuse about {about}"));
            Ok(FormDone::new("/reports", fill(words.are_dismissed, &[&about, &settled])))
        }
        "disable" => set_disabled(visit, &domain, &about, true).await,
        "enable" => set_disabled(visit, &domain, &about, false).await,
        _ => Err(Refusal::Impossible(words.no_such_act.into()).into()),
    }
}

/// Disables the account that a report is about, or enables it, which settles all reports about it.
async fn set_disabled(visit: &Visit, domain: &str, about: &Jid, disabled: bool) -> FormAnswered {
    if !is_account(visit, about) {
        return Err(Refusal::Missing(fill(visit.words().no_account_of_yours, &[about])).into());
    }
    if *about == visit.seen.account {
        return Err(Refusal::Impossible(visit.words().not_yourself.into()).into());
    }
    let of = about.clone();
    let set =
        visit.shared.ask(move |world, answer| users::set_disabled(world, of, disabled, |_, set| answer.complete(set)));
    set.await.map_err(|refusal| visit.in_words(refusal, about, visit.of_accounts()))?;
    let act = if disabled { "disabled an account" } else { "re-enabled an account" };
    visit.note(about.domain(), format!("{act}: {about}"));
    let settled = visit.shared.wait(reports::settle(&visit.shared.stores, domain, about.as_ref())).await?;
    let words = match disabled {
        true => fill(visit.words().disabled_settled, &[about, &settled]),
        false => visit.words().is_enabled.to_owned(),
    };
    Ok(FormDone::new("/reports", words))
}

fn is_account(visit: &Visit, about: &Jid) -> bool {
    about.local().is_some() && visit.domains.iter().any(|domain| domain == about.domain())
}

fn item(visit: &Visit, domain: &str, report: &AbuseReport) -> Html {
    let about = report.about.to_bare();
    let is_account = is_account(visit, &about);
    let words = visit.words();
    let reason = match report.reason_in_words() {
        "spam" => words.spam,
        "abuse" => words.abuse,
        reports::APPROVAL => words.waits_for_approval,
        other => other,
    };
    let mut html = Html::of("<li class=\"report\"><p><span class=\"tag off\">{}</span> ", &[&reason]);
    match is_account {
        true => html.add("<a href=\"/admin/user?jid={}\">{}</a>", &[&encode(about.as_str()), &report.about]),
        false => html.add("<strong>{}</strong>", &[&report.about]),
    }
    html.add(" <span class=\"faint\">{} ", &[&words.reported_by]);
    match &report.by {
        // The server itself, whose limits stop spam by its users.
        Some(by) if by.local().is_none() => html.add("{}", &[by]),
        Some(by) => html.add("<a href=\"/admin/user?jid={}\">{}</a>", &[&encode(by.as_str()), by]),
        None => html.add("{}", &[&words.removed_account]),
    }
    html.add(", ", &[]);
    html.push(&away(report.unix_ms));
    html.add("</span></p>", &[]);
    match report.text.is_empty() {
        true => html.add("<p class=\"faint\">{}</p>", &[&words.no_word]),
        false => html.add("<blockquote>{}</blockquote>", &[&report.text]),
    }
    html.add("<form class=\"acts\" method=\"post\" action=\"/admin/reports\">", &[]);
    html.push(&token(&visit.seen));
    html.add(
        "<input type=\"hidden\" name=\"domain\" value=\"{}\"><input type=\"hidden\" name=\"report\" value=\"{}\">\
         <button class=\"quiet\" name=\"act\" value=\"dismiss\">{}</button>\
         <button class=\"quiet\" name=\"act\" value=\"settle\">",
        &[&domain, &report.id, &words.dismiss],
    );
    html.text(words.dismiss_all, &[&about]);
    html.add("</button>", &[]);
    if is_account && report.reason == reports::APPROVAL {
        html.add("<button name=\"act\" value=\"enable\">{}</button>", &[&words.enable]);
    } else if is_account {
        html.add("<button class=\"danger\" name=\"act\" value=\"disable\">", &[]);
        html.text(words.disable_one, &[&about]);
        html.add("</button>", &[]);
    }
    html.add("</form></li>", &[]);
    html
}
