//! Accounts: finding one, making one.

use rookery_base::date;
use rookery_jid::Jid;
use rookery_operations::{Outcome, Refusal, sessions, users};
use rookery_store::{Browse, Browsed, Choice, Only, Order};

use super::frame::{domain_choice, token};
use super::{Done, Visit};
use crate::form::encode;
use crate::html::Html;

/// Returns the page with the accounts of a domain, and the form for a new one.
pub async fn page(visit: &Visit) -> Outcome<Html> {
    let domain = visit.domain()?;
    let asked = Asked::of(visit);
    let Browsed { total, accounts } =
        visit.shared.wait(visit.shared.stores.accounts.browse(&domain, asked.choice())).await?;
    let shown: Vec<_> = accounts.iter().map(|account| account.jid.clone()).collect();
    let here = visit
        .shared
        .ask(move |world, answer| sessions::connected(world, shown, |_, here| answer.complete(Ok(here))))
        .await?;
    let mut html = Html::of("<h1>Users of {}</h1><p><a class=\"button\" href=\"#new\">New account</a></p>", &[&domain]);
    html.push(&find(visit, &domain, &asked));
    html.add("<section class=\"card\">", &[]);
    match accounts.is_empty() {
        true => html.add("<p id=\"none\" class=\"faint\">There is no such account.</p>", &[]),
        false => html.push(&table(&accounts, &here)),
    }
    html.push(&pager(&domain, &asked, total, accounts.len()));
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

/// The part of the list that a request asks for.
struct Asked<'a> {
    search: &'a str,
    only: &'static (&'static str, &'static str, Only),
    order: &'static (&'static str, &'static str, Order),
    skip: usize,
}

impl<'a> Asked<'a> {
    fn of(visit: &'a Visit) -> Self {
        let (only, order) = (visit.value("only"), visit.value("order"));
        Self {
            search: visit.value("search").trim(),
            only: ONLY.iter().find(|(name, ..)| *name == only).unwrap_or(&ONLY[0]),
            order: ORDERS.iter().find(|(name, ..)| *name == order).unwrap_or(&ORDERS[0]),
            skip: visit.value("from").parse().ok().filter(|from| *from <= MOST_SKIPPED).unwrap_or_default(),
        }
    }

    fn choice(&self) -> Choice {
        let (contains, only, order) = (self.search.to_lowercase(), self.only.2, self.order.2);
        Choice { contains, only, order, skip: self.skip, limit: PAGE }
    }

    /// Returns the address of the part that begins behind so many accounts.
    fn address(&self, domain: &str, skip: usize) -> String {
        let (domain, search) = (encode(domain), encode(self.search));
        let (only, order) = (self.only.0, self.order.0);
        format!("/admin/users?domain={domain}&search={search}&only={only}&order={order}&from={skip}")
    }
}

fn find(visit: &Visit, domain: &str, asked: &Asked<'_>) -> Html {
    let mut html =
        Html::of("<form id=\"find\" class=\"line\" method=\"get\" action=\"/admin/users\" role=\"search\">", &[]);
    html.push(&domain_choice(&visit.domains, domain));
    html.add(
        "<label>Name contains <input id=\"search\" name=\"search\" type=\"search\" value=\"{}\" autocapitalize=\"none\"></label>",
        &[&asked.search],
    );
    html.add("<label>Show <select name=\"only\">", &[]);
    for (name, label, _) in &ONLY {
        html.push(&option(name, label, asked.only.0));
    }
    html.add("</select></label><label>Order <select name=\"order\">", &[]);
    for (name, label, _) in &ORDERS {
        html.push(&option(name, label, asked.order.0));
    }
    html.add("</select></label><button>Find</button></form>", &[]);
    html
}

fn option(name: &str, label: &str, chosen: &str) -> Html {
    match name == chosen {
        true => Html::of("<option value=\"{}\" selected>{}</option>", &[&name, &label]),
        false => Html::of("<option value=\"{}\">{}</option>", &[&name, &label]),
    }
}

fn table(accounts: &[Browse], here: &[Jid]) -> Html {
    let mut html = Html::of(
        "<div class=\"scroll\"><table id=\"users\"><thead><tr><th>Account<th>Last seen<th>State</tr></thead><tbody>",
        &[],
    );
    for account in accounts {
        html.add(
            "<tr><td data-label=\"Account\"><a href=\"/admin/user?jid={}\">{}</a>",
            &[&encode(account.jid.as_str()), &account.jid],
        );
        match (here.contains(&account.jid), account.last_seen_ms) {
            (true, _) => html.add("<td data-label=\"Last seen\"><span class=\"tag on\">online</span>", &[]),
            (false, Some(unix_ms)) => {
                html.add("<td data-label=\"Last seen\" class=\"when\">{}", &[&date::timestamp(unix_ms)]);
            }
            (false, None) => html.add("<td data-label=\"Last seen\"><span class=\"faint\">never</span>", &[]),
        }
        match account.is_disabled {
            true => html.add("<td data-label=\"State\"><span class=\"tag off\">disabled</span></tr>", &[]),
            false => html.add("<td></tr>", &[]),
        }
    }
    html.add("</tbody></table></div>", &[]);
    html
}

fn pager(domain: &str, asked: &Asked<'_>, total: u64, shown: usize) -> Html {
    let last = asked.skip + shown;
    let accounts = if total == 1 { "account" } else { "accounts" };
    let mut html = match shown {
        0 => Html::of("<p id=\"range\" class=\"faint\">0 of {} {}.</p>", &[&total, &accounts]),
        _ => Html::of(
            "<p id=\"range\" class=\"faint\">{}–{} of {} {}.</p>",
            &[&(asked.skip + 1), &last, &total, &accounts],
        ),
    };
    html.add("<p class=\"pager\">", &[]);
    if asked.skip > 0 {
        let back = asked.address(domain, asked.skip.saturating_sub(PAGE));
        html.add("<a id=\"back\" href=\"{}\">Back</a>", &[&back]);
    }
    if (last as u64) < total && shown > 0 {
        html.add("<a id=\"next\" href=\"{}\">More</a>", &[&asked.address(domain, last)]);
    }
    html.add("</p>", &[]);
    html
}

fn new(visit: &Visit, domain: &str) -> Html {
    let mut html = Html::of(
        "<section id=\"new\" class=\"card\"><h2>New account</h2>\
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

/// The kinds of accounts that can be shown: as requests name them, and in words.
const ONLY: [(&str, &str, Only); 3] = [
    ("all", "all accounts", Only::All),
    ("disabled", "disabled accounts", Only::Disabled),
    ("never", "accounts never seen", Only::NeverSeen),
];
/// The orders, in the same way.
const ORDERS: [(&str, &str, Order); 3] = [
    ("name", "by name", Order::Name),
    ("newest", "last seen first", Order::Newest),
    ("oldest", "longest away first", Order::Oldest),
];
/// Accounts of a page.
const PAGE: usize = 50;
/// Accounts in front of a page.
const MOST_SKIPPED: usize = 1_000_000_000;
/// Characters of a password.
pub(super) const MAX_PASSWORD: usize = 1023;
