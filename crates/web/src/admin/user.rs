//! One account: its sessions, and the actions on it.

use hyper::header::{CONTENT_DISPOSITION, HeaderValue};
use hyper::{Response, StatusCode};
use rookery_base::count_of;
use rookery_jid::Jid;
use rookery_operations::sessions::{self, SessionInfo};
use rookery_operations::users::{self, OperationUser};
use rookery_operations::{Outcome, Refusal};

use super::fields::{AdminField, AdminForm, FormAnswered};
use super::frame::{away, token};
use super::sessions::{connection, heads, state};
use super::users::{NAME_RULES, NEW_PASSWORD_RULES};
use super::{FormDone, Visit, belongings, stands_for};
use crate::form::encode;
use crate::html::Html;
use crate::language::fill;
use crate::reply::{Body, reply};

/// Returns the page of an account.
pub async fn page(visit: &Visit) -> Outcome<Html> {
    let account = visit.address()?;
    let of = account.clone();
    let user = visit.shared.ask(move |world, answer| users::describe(world, of, |_, user| answer.complete(user)));
    let user = user.await.map_err(|refusal| visit.in_words(refusal, &account, visit.of_accounts()))?;
    let mut html = Html::of("<h1 id=\"account\">{}</h1>", &[&user.jid]);
    html.push(&facts(visit, &user));
    html.push(&sessions_of(visit, &user));
    html.push(&belongings::sections(visit, &user.jid).await?);
    html.add("<div class=\"cards\">", &[]);
    html.push(&password(visit, &user.jid));
    html.push(&entry(visit, &user));
    html.push(&data(visit, &user.jid));
    html.add("</div>", &[]);
    Ok(html)
}

/// Processes a form of the page, except for the export.
pub async fn change(visit: &Visit) -> FormAnswered {
    let account = visit.address()?;
    let here = format!("/user?jid={}", encode(account.as_str()));
    match visit.value("act") {
        "password" => set_password(visit, &account, here).await,
        "disable" => Ok(set_disabled(visit, &account, true, here).await?),
        "enable" => Ok(set_disabled(visit, &account, false, here).await?),
        "kick" => Ok(kick(visit, &account, here).await?),
        "erase" => erase(visit, &account).await,
        _ => Err(Refusal::Impossible(visit.words().no_such_act.into()).into()),
    }
}

/// Returns all data of an account, as a file.
pub async fn export(visit: &Visit) -> Outcome<Response<Body>> {
    let account = visit.address()?;
    if !visit.shared.wait(visit.shared.stores.accounts.exists(account.as_ref())).await? {
        return Err(Refusal::Missing(fill(visit.words().no_account, &[&account])));
    }
    let document = visit.shared.export(account.clone()).await?;
    visit.note(account.domain(), format!("exported an account: {account}"));
    let mut response = reply(StatusCode::OK, "application/xml", "");
    *response.body_mut() = document;
    response
        .headers_mut()
        .insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"account.xml\""));
    Ok(response)
}

async fn set_password(visit: &Visit, account: &Jid, here: String) -> FormAnswered {
    let (of, password) = (account.clone(), visit.password(account.domain())?);
    let set = visit
        .shared
        .ask(move |world, answer| users::set_password(world, of, password, None, |_, set| answer.complete(set)));
    set.await.map_err(|refusal| visit.in_words(refusal, account, visit.of_accounts()))?;
    if visit.seen.account == *account
        && let Some(password) = stands_for(&visit.shared, account).await?
    {
        visit.shared.admin.visits.renew(&visit.seen, password);
    }
    visit.note(account.domain(), format!("set a password: {account}"));
    Ok(FormDone::new(here, visit.words().password_set))
}

async fn set_disabled(visit: &Visit, account: &Jid, disabled: bool, here: String) -> Outcome<FormDone> {
    is_other(visit, account)?;
    let of = account.clone();
    let set =
        visit.shared.ask(move |world, answer| users::set_disabled(world, of, disabled, |_, set| answer.complete(set)));
    set.await.map_err(|refusal| visit.in_words(refusal, account, visit.of_accounts()))?;
    let (act, words) = match disabled {
        true => ("disabled an account", visit.words().is_disabled),
        false => ("re-enabled an account", visit.words().is_enabled),
    };
    visit.note(account.domain(), format!("{act}: {account}"));
    Ok(FormDone::new(here, words))
}

/// Ends one session, or all.
async fn kick(visit: &Visit, account: &Jid, here: String) -> Outcome<FormDone> {
    let address = match visit.value("resource") {
        "" => account.clone(),
        resource => Jid::new(account.local(), account.domain(), Some(resource))
            .map_err(|_| Refusal::Missing(visit.words().no_such_session.into()))?,
    };
    let of = address.clone();
    let ended =
        visit.shared.ask(move |world, answer| sessions::end(world, of, |_, ended| answer.complete(ended))).await?;
    visit.note(account.domain(), format!("ended {}: {address}", count_of(ended as u64, "session")));
    Ok(FormDone::new(here, visit.language.count(visit.words().sessions_ended, ended as u64)))
}

async fn erase(visit: &Visit, account: &Jid) -> FormAnswered {
    is_other(visit, account)?;
    visit.is_sure(account)?;
    let of = account.clone();
    let removed =
        visit.shared.ask(move |world, answer| users::remove(world, of, |_, removed| answer.complete(removed)));
    removed.await.map_err(|refusal| visit.in_words(refusal, account, visit.of_accounts()))?;
    visit.note(account.domain(), format!("deleted an account: {account}"));
    Ok(FormDone::new(format!("/users?domain={}", encode(account.domain())), fill(visit.words().was_erased, &[account])))
}

/// Keeps administrators from locking themselves out.
fn is_other(visit: &Visit, account: &Jid) -> Outcome<()> {
    match *account == visit.seen.account {
        true => Err(Refusal::Impossible(visit.words().not_yourself.into())),
        false => Ok(()),
    }
}

fn facts(visit: &Visit, user: &OperationUser) -> Html {
    let words = visit.words();
    let (class, state) = if user.is_disabled { ("tag off", words.disabled) } else { ("tag on", words.enabled) };
    let mut html = Html::of("<p><span id=\"state\" class=\"{}\">{}</span> ", &[&class, &state]);
    if user.is_admin {
        html.add("<span id=\"is-admin\" class=\"tag\">{}</span> ", &[&words.administrator]);
    }
    let is_connected = user.sessions.iter().any(|session| session.address.is_some());
    let seen = match (user.sessions.is_empty(), user.last_seen_ms) {
        (false, _) if is_connected => words.here_now.to_owned(),
        (false, _) => words.connection_lost.to_owned(),
        (true, Some(_)) => format!("{} ", words.last_here),
        (true, None) => words.never_here.to_owned(),
    };
    let contacts = visit.language.count(words.contacts, user.contacts as u64);
    html.add("<span class=\"faint\">{}, <span id=\"last-seen\">{}", &[&contacts, &seen]);
    if let (true, Some(unix_ms)) = (user.sessions.is_empty(), user.last_seen_ms) {
        html.push(&away(unix_ms));
    }
    html.add("</span></span></p>", &[]);
    html
}

fn sessions_of(visit: &Visit, user: &OperationUser) -> Html {
    let words = visit.words();
    let mut html = Html::of("<section class=\"card\"><h2>{}</h2>", &[&words.sessions]);
    if user.sessions.is_empty() {
        html.add("<p id=\"no-sessions\" class=\"faint\">{}</p></section>", &[&words.none]);
        return html;
    }
    html.add("<div class=\"scroll\"><table id=\"sessions\" class=\"many\"><thead><tr>", &[]);
    html.push(&heads(words));
    for session in &user.sessions {
        html.push(&line(visit, &user.jid, session));
    }
    html.add("</tbody></table></div>", &[]);
    if user.sessions.len() > 1 {
        html.push(&act(visit, &user.jid, "kick", "kick-all", words.end_all, "quiet"));
    }
    html.add("</section>", &[]);
    html
}

fn line(visit: &Visit, account: &Jid, session: &SessionInfo) -> Html {
    let resource = session.jid.resource().unwrap_or_default();
    let mut html = Html::of("<tr>", &[]);
    html.push(&connection(visit.words(), session));
    html.push(&state(visit.words(), session));
    html.add("<td><form method=\"post\" action=\"/admin/user\">", &[]);
    html.push(&token(&visit.seen));
    html.add(
        "<input type=\"hidden\" name=\"jid\" value=\"{}\"><input type=\"hidden\" name=\"resource\" value=\"{}\">\
         <button class=\"quiet\" name=\"act\" value=\"kick\">{}</button></form></tr>",
        &[account, &resource, &visit.words().end],
    );
    html
}

fn password(visit: &Visit, account: &Jid) -> Html {
    let words = visit.words();
    let mut html = Html::of("<section class=\"card\"><h2>{}</h2>", &[&words.password]);
    let form = AdminForm::begin(visit, "set-password", "column", "/user", &mut html);
    html.add("<input type=\"hidden\" name=\"jid\" value=\"{}\">", &[account]);
    let least = visit.language.count(words.characters_least, visit.least(account.domain()));
    let hint = format!("{least}; {}", words.sessions_end);
    let password = AdminField {
        name: "password",
        label: words.new_password,
        hint: &hint,
        rules: NEW_PASSWORD_RULES,
        ..AdminField::default()
    };
    form.input(password, &mut html);
    html.add(
        "<div><button name=\"act\" value=\"password\">{}</button></div></form>\
         <p class=\"faint\">{} <a href=\"/admin/invitations?jid={}\">{}</a>.</p></section>",
        &[&words.set, &words.or_send_link, &encode(account.as_str()), &words.invitations],
    );
    html
}

fn entry(visit: &Visit, user: &OperationUser) -> Html {
    let words = visit.words();
    let mut html = Html::of("<section class=\"card\"><h2>{}</h2>", &[&words.access]);
    match user.is_disabled {
        true => {
            html.add("<p>{}</p>", &[&words.nobody_logs_in]);
            html.push(&act(visit, &user.jid, "enable", "enable", words.enable, ""));
        }
        false => {
            html.add("<p>{}</p>", &[&words.disabled_keeps]);
            html.push(&act(visit, &user.jid, "disable", "disable", words.disable, "quiet"));
        }
    }
    html.add("</section>", &[]);
    html
}

fn data(visit: &Visit, account: &Jid) -> Html {
    let words = visit.words();
    let mut html = Html::of("<section class=\"card\"><h2>{}</h2><p>{}</p>", &[&words.data, &words.export_has]);
    html.push(&act(visit, account, "export", "export", words.export, "quiet"));
    html.push(&erasure(visit, account));
    html.add("</section>", &[]);
    html
}

fn erasure(visit: &Visit, account: &Jid) -> Html {
    let words = visit.words();
    let mut inner = Html::default();
    let form = AdminForm::begin(visit, "erase", "column", "/user", &mut inner);
    inner.add("<input type=\"hidden\" name=\"jid\" value=\"{}\">", &[account]);
    let label = fill(words.write_to_confirm, &[account]);
    form.input(AdminField { name: "confirm", label: &label, rules: NAME_RULES, ..AdminField::default() }, &mut inner);
    let mut html = Html::of("<details", &[]);
    html.add(if form.returned_form().is_some() { " open" } else { "" }, &[]);
    html.add("><summary>{}</summary>", &[&words.erase_account]);
    html.push(&inner);
    html.add("<button class=\"danger\" name=\"act\" value=\"erase\">{}</button></form></details>", &[&words.erase]);
    html
}

/// Returns a form of one button.
fn act(visit: &Visit, account: &Jid, act: &str, id: &str, label: &str, class: &str) -> Html {
    let mut html = Html::of("<form id=\"{}\" method=\"post\" action=\"/admin/user\">", &[&id]);
    html.push(&token(&visit.seen));
    html.add(
        "<input type=\"hidden\" name=\"jid\" value=\"{}\"><button class=\"{}\" name=\"act\" value=\"{}\">{}</button></form>",
        &[account, &class, &act, &label],
    );
    html
}
