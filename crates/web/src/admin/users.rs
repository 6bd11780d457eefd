//! Accounts: finding one, making one.

use rookery_jid::Jid;
use rookery_operations::users::{self, Listed};
use rookery_operations::{Outcome, Refusal};

use super::frame::{domain_choice, token};
use super::{Done, Visit};
use crate::form::encode;
use crate::html::Html;

/// Returns the page with the accounts of a domain, and the form for a new one.
pub async fn page(visit: &Visit) -> Outcome<Html> {
    let (domain, search) = (visit.domain()?, visit.value("search").trim());
    let after = Some(visit.value("after")).filter(|after| !after.is_empty()).and_then(|after| Jid::parse(after).ok());
    let stores = &visit.shared.stores;
    let count = visit.shared.wait(stores.accounts.count(Some(&domain))).await?;
    let listed = visit.shared.wait(users::list(stores, &domain, search, after, PAGE)).await?;
    let mut html = Html::of("<h1>Users of {}</h1>", &[&domain]);
    html.push(&find(visit, &domain, search));
    html.add("<section class=\"card\">", &[]);
    match listed.users.is_empty() {
        true => html.add("<p id=\"none\" class=\"faint\">No account is called so.</p>", &[]),
        false => html.push(&table(&listed.users)),
    }
    html.add("<p class=\"faint\">{} accounts in this domain.</p>", &[&count]);
    if let Some(next) = &listed.next {
        let next = format!("?domain={}&search={}&after={}", encode(&domain), encode(search), encode(next.as_str()));
        html.add("<p class=\"pager\"><a id=\"next\" href=\"/admin/users{}\">More</a></p>", &[&next]);
    }
    html.add("</section>", &[]);
    html.push(&new(visit, &domain));
    Ok(html)
}

/// Makes an account.
pub async fn add(visit: &Visit) -> Outcome<Done> {
    let (domain, password) = (visit.domain()?, visit.value("password").to_owned());
    let account = users::address(&visit.shared.settings().hub, visit.value("name").trim(), &domain)?;
    if password.chars().count() > MAX_PASSWORD {
        return Err(Refusal::Impossible(format!("a password has at most {MAX_PASSWORD} characters")));
    }
    let made = account.clone();
    let has_rights = visit
        .shared
        .ask(move |world, answer| users::add(world, made, password, |_, added| answer.complete(added)))
        .await?;
    visit.note(&domain, format!("created an account: {account}"));
    let more = if has_rights { " Its name was given rights before there was an account." } else { "" };
    Ok(Done::new(format!("/user?jid={}", encode(account.as_str())), format!("{account} was created.{more}")))
}

fn find(visit: &Visit, domain: &str, search: &str) -> Html {
    let mut html =
        Html::of("<form id=\"find\" class=\"line\" method=\"get\" action=\"/admin/users\" role=\"search\">", &[]);
    html.push(&domain_choice(&visit.domains, domain));
    html.add(
        "<label>Name contains <input id=\"search\" name=\"search\" type=\"search\" value=\"{}\" autocapitalize=\"none\"></label>\
         <button>Find</button></form>",
        &[&search],
    );
    html
}

fn table(users: &[Listed]) -> Html {
    let mut html =
        Html::of("<div class=\"scroll\"><table id=\"users\"><thead><tr><th>Account<th>State</tr></thead><tbody>", &[]);
    for user in users {
        let (class, state) = if user.is_disabled { ("tag off", "disabled") } else { ("tag", "enabled") };
        html.add(
            "<tr><td><a href=\"/admin/user?jid={}\">{}</a><td><span class=\"{}\">{}</span></tr>",
            &[&encode(user.jid.as_str()), &user.jid, &class, &state],
        );
    }
    html.add("</tbody></table></div>", &[]);
    html
}

fn new(visit: &Visit, domain: &str) -> Html {
    let mut html = Html::of(
        "<section class=\"card\"><h2>New account</h2>\
         <form id=\"new-user\" class=\"line\" method=\"post\" action=\"/admin/users\">",
        &[],
    );
    html.push(&token(&visit.seen));
    html.push(&domain_choice(&visit.domains, domain));
    html.add(
        "<label>Name <input id=\"new-name\" name=\"name\" autocapitalize=\"none\" autocomplete=\"off\" required></label>\
         <label>Password <input id=\"new-password\" name=\"password\" type=\"password\" autocomplete=\"new-password\" required></label>\
         <button id=\"create\">Create</button></form></section>",
        &[],
    );
    html
}

/// Accounts of a page.
const PAGE: usize = 50;
/// Characters of a password.
pub(super) const MAX_PASSWORD: usize = 1023;
