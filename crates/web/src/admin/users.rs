//! Accounts: finding one, creating one.

use hyper::header::{CONTENT_DISPOSITION, HeaderValue};
use hyper::{Response, StatusCode};
use rookery_base::date;
use rookery_jid::Jid;
use rookery_operations::{Outcome, sessions, users};
use rookery_store::{Browse, Browsed, Choice, Order};

use super::fields::{AdminField, AdminForm, FormAnswered, RefusedField};
use super::frame::{away, domain_choice, moment};
use super::graph::bytes;
use super::outcome::RefusalWords;
use super::{FormDone, Visit, chosen};
use crate::account_list::{self, AccountKind, KINDS, MOST_SEARCHED, PART};
use crate::form::encode;
use crate::html::Html;
use crate::language::fill;
use crate::reply::{Body, reply};
use crate::words::AdminWords;

/// Returns the page with the accounts of a domain, and the form for a new one.
pub async fn page(visit: &Visit) -> Outcome<Html> {
    let domain = visit.domain()?;
    let asked = AskedPage::of(visit);
    let Browsed { total, accounts } = visit.shared.accounts_of(&domain, asked.only.2, asked.choice()).await?;
    let shown: Vec<_> = accounts.iter().map(|account| account.jid.clone()).collect();
    let here = visit
        .shared
        .ask(move |world, answer| sessions::retain_connected(world, shown, |_, here| answer.complete(Ok(here))))
        .await?;
    let words = visit.words();
    let mut html = Html::of("<h1>", &[]);
    html.text(words.users_of, &[&domain]);
    html.add("</h1>", &[]);
    html.push(&new(visit, &domain));
    html.push(&find(visit, &domain, &asked));
    html.add("<section class=\"card\">", &[]);
    match accounts.is_empty() {
        true => html.add("<p id=\"none\" class=\"faint\">{}</p>", &[&words.no_such_account]),
        false => {
            let from = asked.skip.to_string();
            let part =
                [("domain", &*domain), ("search", asked.search), ("only", asked.only.0), ("order", asked.order.0)];
            html.push(&chosen::begin(visit, &[&part[..], &[("from", &from)]].concat()));
            html.push(&table(visit, &accounts, &here));
            html.push(&chosen::end(words));
        }
    }
    html.push(&pager(visit, &domain, &asked, total, accounts.len()));
    html.add("</section>", &[]);
    Ok(html)
}

/// Returns all accounts that match the page's filter, for spreadsheets (RFC 4180).
pub async fn csv(visit: &Visit) -> Outcome<Response<Body>> {
    let domain = visit.domain()?;
    let asked = AskedPage::of(visit);
    let mut text = "account,disabled,created,last seen,bytes\r\n".to_owned();
    for part in 0..MOST_SEARCHED / PART {
        let choice = Choice { skip: part * PART, limit: PART, ..asked.choice() };
        let Browsed { accounts, .. } = visit.shared.accounts_of(&domain, asked.only.2, choice).await?;
        for account in &accounts {
            let time = |unix_ms: Option<u64>| unix_ms.map(date::timestamp).unwrap_or_default();
            let (created, seen) = (time(account.created_ms), time(account.last_seen_ms));
            // An address contains no quotation mark.
            text.push_str(&format!(
                "\"{}\",{},{created},{seen},{}\r\n",
                account.jid, account.is_disabled, account.bytes
            ));
        }
        if accounts.len() < PART {
            break;
        }
    }
    let mut response = reply(StatusCode::OK, "text/csv; charset=utf-8", text);
    response
        .headers_mut()
        .insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"accounts.csv\""));
    Ok(response)
}

/// Processes a form of the page.
pub async fn change(visit: &Visit) -> FormAnswered {
    let asked = AskedPage::of(visit);
    let here = || visit.domain().map(|domain| asked.address(&domain, asked.skip).replacen("/admin", "", 1));
    match visit.value("act") {
        "disable" => chosen::change(visit, true, here()?).await,
        "enable" => chosen::change(visit, false, here()?).await,
        _ => add(visit).await,
    }
}

/// Creates an account.
async fn add(visit: &Visit) -> FormAnswered {
    let domain = visit.domain().at("domain")?;
    let name = own_name(visit.value("name").trim(), &domain);
    let words = visit.words();
    let refused = RefusalWords { missing: words.no_such_domain, impossible: words.name_impossible };
    let account = users::address(&visit.shared.settings().hub, name, &domain);
    let account = account.map_err(|refusal| visit.in_words(refusal, &name, refused)).at("name")?;
    let (made, password) = (account.clone(), visit.password(&domain)?);
    let added =
        visit.shared.ask(move |world, answer| users::add(world, made, password, |_, added| answer.complete(added)));
    let has_rights =
        added.await.map_err(|refusal| visit.in_words(refusal, &account, visit.of_accounts())).at("name")?;
    visit.note(&domain, format!("created an account: {account}"));
    let created = fill(words.was_created, &[&account]);
    let said = if has_rights { format!("{created} {}", words.had_rights) } else { created };
    Ok(FormDone::new(format!("/user?jid={}", encode(account.as_str())), said))
}

/// Returns the localpart of an account's name as visitors write it: the localpart, or the address.
fn own_name<'a>(written: &'a str, domain: &str) -> &'a str {
    match written.rsplit_once('@') {
        Some((name, of)) if of.eq_ignore_ascii_case(domain) => name,
        _ => written,
    }
}

/// The part of the list that a request asks for.
struct AskedPage<'a> {
    search: &'a str,
    only: &'static (&'static str, AccountsWord, AccountKind),
    order: &'static (&'static str, AccountsWord, Order),
    skip: usize,
}

impl<'a> AskedPage<'a> {
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
        let (contains, order) = (self.search.to_lowercase(), self.order.2);
        Choice { contains, order, skip: self.skip, limit: PAGE, ..Choice::default() }
    }

    /// Returns the address of the part that begins after `skip` accounts.
    fn address(&self, domain: &str, skip: usize) -> String {
        format!("/admin/users?{}&from={skip}", self.query(domain))
    }

    fn query(&self, domain: &str) -> String {
        let (domain, search) = (encode(domain), encode(self.search));
        let (only, order) = (self.only.0, self.order.0);
        format!("domain={domain}&search={search}&only={only}&order={order}")
    }
}

fn find(visit: &Visit, domain: &str, asked: &AskedPage<'_>) -> Html {
    let words = visit.words();
    let mut html =
        Html::of("<form id=\"find\" class=\"line\" method=\"get\" action=\"/admin/users\" role=\"search\">", &[]);
    html.push(&domain_choice(words, &visit.domains, domain));
    html.add(
        "<label>{} <input id=\"search\" name=\"search\" type=\"search\" value=\"{}\" autocapitalize=\"none\"></label>",
        &[&words.name_contains, &asked.search],
    );
    html.add("<label>{} <select name=\"only\">", &[&words.show_only]);
    for (name, label, _) in &ONLY {
        html.push(&option(name, label(words), asked.only.0));
    }
    html.add("</select></label><label>{} <select name=\"order\">", &[&words.order]);
    for (name, label, _) in &ORDERS {
        html.push(&option(name, label(words), asked.order.0));
    }
    html.add("</select></label><button>{}</button></form>", &[&words.find]);
    html
}

/// Returns an option of a choice.
pub(super) fn option(name: &str, label: &str, chosen: &str) -> Html {
    match name == chosen {
        true => Html::of("<option value=\"{}\" selected>{}</option>", &[&name, &label]),
        false => Html::of("<option value=\"{}\">{}</option>", &[&name, &label]),
    }
}

fn table(visit: &Visit, accounts: &[Browse], here: &[Jid]) -> Html {
    let words = visit.words();
    let mut html = Html::of(
        "<div class=\"scroll\"><table id=\"users\"><thead><tr><td><th>{}<th>{}<th>{}<th class=\"number\">{}<th>{}</tr></thead><tbody>",
        &[&words.account, &words.last_seen, &words.created, &words.storage, &words.state],
    );
    for account in accounts {
        html.add("<tr>", &[]);
        html.push(&chosen::tick(words, &account.jid));
        html.add(
            "<td data-label=\"{}\"><a href=\"/admin/user?jid={}\">{}</a><td data-label=\"{}\" class=\"when\">",
            &[&words.account, &encode(account.jid.as_str()), &account.jid, &words.last_seen],
        );
        match (here.contains(&account.jid), account.last_seen_ms) {
            (true, _) => html.add("<span class=\"tag on\">{}</span>", &[&words.online]),
            (false, Some(unix_ms)) => html.push(&away(unix_ms)),
            (false, None) => html.add("<span class=\"faint\">{}</span>", &[&words.never]),
        }
        html.add("<td data-label=\"{}\" class=\"when\">", &[&words.created]);
        match account.created_ms {
            Some(unix_ms) => html.push(&moment(unix_ms)),
            None => html.add("<span class=\"faint\">{}</span>", &[&words.unknown]),
        }
        let stored = visit.language.amount(&bytes(account.bytes as f64));
        html.add("<td data-label=\"{}\" class=\"number\">{}", &[&words.storage, &stored]);
        match account.is_disabled {
            true => html
                .add("<td data-label=\"{}\"><span class=\"tag off\">{}</span></tr>", &[&words.state, &words.disabled]),
            false => html.add("<td></tr>", &[]),
        }
    }
    html.add("</tbody></table></div><p class=\"faint\">{}</p>", &[&words.storage_hint]);
    html
}

fn pager(visit: &Visit, domain: &str, asked: &AskedPage<'_>, total: u64, shown: usize) -> Html {
    let last = asked.skip + shown;
    let (words, language) = (visit.words(), visit.language);
    let mut html = Html::of("<p id=\"range\" class=\"faint\">", &[]);
    match shown {
        0 => html.text(language.plural(words.none_of_accounts, total), &[&total]),
        _ => html.text(language.plural(words.some_accounts, total), &[&(asked.skip + 1), &last, &total]),
    }
    html.add("</p><p class=\"pager\">", &[]);
    if asked.skip > 0 {
        let back = asked.address(domain, asked.skip.saturating_sub(PAGE));
        html.add("<a id=\"back\" href=\"{}\">{}</a>", &[&back, &words.back]);
    }
    if (last as u64) < total && shown > 0 {
        html.add("<a id=\"next\" href=\"{}\">{}</a>", &[&asked.address(domain, last), &words.more]);
    }
    if total > 0 {
        let query = asked.query(domain);
        html.add("<a id=\"csv\" href=\"/admin/users.csv?{}\" download>{}</a>", &[&query, &words.as_csv]);
    }
    html.add("</p>", &[]);
    html
}

fn new(visit: &Visit, domain: &str) -> Html {
    let words = visit.words();
    let mut form_html = Html::default();
    let form = AdminForm::begin(visit, "new-user", "line", "/users", &mut form_html);
    form.domain(domain, &mut form_html);
    let name = AdminField { name: "name", label: words.name, rules: NAME_RULES, ..AdminField::default() };
    form.input(name, &mut form_html);
    let hint = visit.language.count(words.characters_least, visit.least(domain));
    let password = AdminField {
        name: "password",
        label: words.password,
        hint: &hint,
        rules: NEW_PASSWORD_RULES,
        ..AdminField::default()
    };
    form.input(password, &mut form_html);
    let is_open = if form.returned_form().is_some() { " open" } else { "" };
    let mut html = Html::of("<details id=\"new\" class=\"card\"", &[]);
    html.add(is_open, &[]);
    html.add("><summary>{}</summary>", &[&words.new_account]);
    html.push(&form_html);
    html.add("<button id=\"create\">{}</button></form></details>", &[&words.create]);
    html
}

/// The name of a choice, in a language.
type AccountsWord = fn(&AdminWords) -> &'static str;

/// The kinds of accounts that can be shown: their names in requests and their labels.
const ONLY: [(&str, AccountsWord, AccountKind); 5] = [
    (KINDS[0].0, |words| words.all_accounts, KINDS[0].1),
    (KINDS[1].0, |words| words.online_accounts, KINDS[1].1),
    (KINDS[2].0, |words| words.disabled_accounts, KINDS[2].1),
    (KINDS[3].0, |words| words.never_seen, KINDS[3].1),
    (KINDS[4].0, |words| words.administrators_only, KINDS[4].1),
];
/// The orders, in the same way.
const ORDERS: [(&str, AccountsWord, Order); 5] = [
    (account_list::ORDERS[0].0, |words| words.by_name, account_list::ORDERS[0].1),
    (account_list::ORDERS[1].0, |words| words.seen_first, account_list::ORDERS[1].1),
    (account_list::ORDERS[2].0, |words| words.away_first, account_list::ORDERS[2].1),
    (account_list::ORDERS[3].0, |words| words.young_first, account_list::ORDERS[3].1),
    (account_list::ORDERS[4].0, |words| words.large_first, account_list::ORDERS[4].1),
];
/// The number of accounts on a page.
const PAGE: usize = 50;
/// The most accounts before a page.
const MOST_SKIPPED: usize = 1_000_000_000;
/// Attributes of a field for the name or the address of an account.
pub(super) const NAME_RULES: &str = "autocapitalize=\"none\" autocomplete=\"off\" spellcheck=\"false\" required";
/// Attributes of a field for a new password. The script adds buttons that show it and generate one.
pub(super) const NEW_PASSWORD_RULES: &str = "type=\"password\" autocomplete=\"new-password\" data-new required";
