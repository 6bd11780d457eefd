//! One account: its sessions, and what can be done to it.

use hyper::header::{CONTENT_DISPOSITION, HeaderValue};
use hyper::{Response, StatusCode};
use rookery_jid::Jid;
use rookery_operations::sessions::{self, SessionInfo};
use rookery_operations::users::{self, OperationUser};
use rookery_operations::{Outcome, Refusal};

use super::fields::{AdminField, AdminForm, FormAnswered};
use super::frame::{moment, token};
use super::sessions::{connection, state_of};
use super::users::{NAME_RULES, NEW_PASSWORD_RULES};
use super::{FormDone, Visit, stands_for};
use crate::form::encode;
use crate::html::Html;
use crate::reply::{Body, reply};

/// Returns the page of an account.
pub async fn page(visit: &Visit) -> Outcome<Html> {
    let account = visit.address()?;
    let user =
        visit.shared.ask(move |world, answer| users::describe(world, account, |_, user| answer.complete(user))).await?;
    let mut html = Html::of("<h1 id=\"account\">{}</h1>", &[&user.jid]);
    html.push(&facts(&user));
    html.push(&sessions_of(visit, &user));
    html.add("<div class=\"cards\">", &[]);
    html.push(&password(visit, &user.jid));
    html.push(&state(visit, &user));
    html.push(&data(visit, &user.jid));
    html.add("</div>", &[]);
    Ok(html)
}

/// Does what a form of the page asks for, but for the export.
pub async fn change(visit: &Visit) -> FormAnswered {
    let account = visit.address()?;
    let here = format!("/user?jid={}", encode(account.as_str()));
    match visit.value("act") {
        "password" => set_password(visit, &account, here).await,
        "disable" => Ok(set_disabled(visit, &account, true, here).await?),
        "enable" => Ok(set_disabled(visit, &account, false, here).await?),
        "kick" => Ok(kick(visit, &account, here).await?),
        "erase" => erase(visit, &account).await,
        _ => Err(Refusal::Impossible("the form asks for nothing that there is".into()).into()),
    }
}

/// Returns all that is kept for an account, as a file.
pub async fn export(visit: &Visit) -> Outcome<Response<Body>> {
    let account = visit.address()?;
    if !visit.shared.wait(visit.shared.stores.accounts.exists(account.as_ref())).await? {
        return Err(Refusal::Missing(format!("there is no account {account}")));
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
    visit
        .shared
        .ask(move |world, answer| users::set_password(world, of, password, None, |_, set| answer.complete(set)))
        .await?;
    if visit.seen.account == *account
        && let Some(password) = stands_for(&visit.shared, account).await?
    {
        visit.shared.admin.visits.renew(&visit.seen, password);
    }
    visit.note(account.domain(), format!("set a password: {account}"));
    Ok(FormDone::new(here, "The new password counts, and the sessions of the account have ended."))
}

async fn set_disabled(visit: &Visit, account: &Jid, disabled: bool, here: String) -> Outcome<FormDone> {
    is_other(visit, account)?;
    let of = account.clone();
    visit
        .shared
        .ask(move |world, answer| users::set_disabled(world, of, disabled, |_, set| answer.complete(set)))
        .await?;
    let (act, words) = match disabled {
        true => ("disabled an account", "The account is disabled."),
        false => ("re-enabled an account", "The account can be used again."),
    };
    visit.note(account.domain(), format!("{act}: {account}"));
    Ok(FormDone::new(here, words))
}

/// Ends one session, or all.
async fn kick(visit: &Visit, account: &Jid, here: String) -> Outcome<FormDone> {
    let address = match visit.value("resource") {
        "" => account.clone(),
        resource => Jid::new(account.local(), account.domain(), Some(resource))
            .map_err(|_| Refusal::Missing("there is no such session".into()))?,
    };
    let of = address.clone();
    let ended =
        visit.shared.ask(move |world, answer| sessions::end(world, of, |_, ended| answer.complete(ended))).await?;
    visit.note(account.domain(), format!("ended {ended} sessions: {address}"));
    Ok(FormDone::new(
        here,
        if ended == 1 { "1 session was ended.".to_owned() } else { format!("{ended} sessions were ended.") },
    ))
}

async fn erase(visit: &Visit, account: &Jid) -> FormAnswered {
    is_other(visit, account)?;
    visit.is_sure(account)?;
    let of = account.clone();
    visit.shared.ask(move |world, answer| users::remove(world, of, |_, removed| answer.complete(removed))).await?;
    visit.note(account.domain(), format!("deleted an account: {account}"));
    Ok(FormDone::new(format!("/users?domain={}", encode(account.domain())), format!("{account} was erased.")))
}

/// Administrators don't lock themselves out.
fn is_other(visit: &Visit, account: &Jid) -> Outcome<()> {
    match *account == visit.seen.account {
        true => Err(Refusal::Impossible("nothing was done: administrators can't do that to themselves".into())),
        false => Ok(()),
    }
}

fn facts(user: &OperationUser) -> Html {
    let (class, state) = if user.is_disabled { ("tag off", "disabled") } else { ("tag on", "enabled") };
    let mut html = Html::of("<p><span id=\"state\" class=\"{}\">{}</span> ", &[&class, &state]);
    if user.is_admin {
        html.add("<span id=\"is-admin\" class=\"tag\">administrator</span> ", &[]);
    }
    let is_connected = user.sessions.iter().any(|session| session.address.is_some());
    let seen = match (user.sessions.is_empty(), user.last_seen_ms) {
        (false, _) if is_connected => "here now".to_owned(),
        (false, _) => "connection lost".to_owned(),
        (true, Some(_)) => "last here ".to_owned(),
        (true, None) => "never here".to_owned(),
    };
    html.add(
        "<span class=\"faint\">{} {}, <span id=\"last-seen\">{}",
        &[&user.contacts, &if user.contacts == 1 { "contact" } else { "contacts" }, &seen],
    );
    if let (true, Some(unix_ms)) = (user.sessions.is_empty(), user.last_seen_ms) {
        html.push(&moment(unix_ms));
    }
    html.add("</span></span></p>", &[]);
    html
}

fn sessions_of(visit: &Visit, user: &OperationUser) -> Html {
    let mut html = Html::of("<section class=\"card\"><h2>Sessions</h2>", &[]);
    if user.sessions.is_empty() {
        html.add("<p id=\"no-sessions\" class=\"faint\">None.</p></section>", &[]);
        return html;
    }
    html.add(
        "<div class=\"scroll\"><table id=\"sessions\"><thead><tr><th>Resource<th>From<th>By<th>Connected<th>State\
         <th class=\"number\">Bytes waiting<td></tr></thead><tbody>",
        &[],
    );
    for session in &user.sessions {
        html.push(&line(visit, &user.jid, session));
    }
    html.add("</tbody></table></div>", &[]);
    if user.sessions.len() > 1 {
        html.push(&act(visit, &user.jid, "kick", "kick-all", "End all", "quiet"));
    }
    html.add("</section>", &[]);
    html
}

fn line(visit: &Visit, account: &Jid, session: &SessionInfo) -> Html {
    let resource = session.jid.resource().unwrap_or_default();
    let from = session.address.map_or_else(|| "nowhere".to_owned(), |from| from.ip().to_canonical().to_string());
    let mut html =
        Html::of("<tr><td data-label=\"Resource\"><code>{}</code><td data-label=\"From\">{}", &[&resource, &from]);
    html.push(&connection(session));
    html.add(
        "<td data-label=\"State\">{}<td class=\"number\" data-label=\"Bytes waiting\">{}<td>\
         <form method=\"post\" action=\"/admin/user\">",
        &[&state_of(session), &session.waiting_bytes],
    );
    html.push(&token(&visit.seen));
    html.add(
        "<input type=\"hidden\" name=\"jid\" value=\"{}\"><input type=\"hidden\" name=\"resource\" value=\"{}\">\
         <button class=\"quiet\" name=\"act\" value=\"kick\">End</button></form></tr>",
        &[account, &resource],
    );
    html
}

fn password(visit: &Visit, account: &Jid) -> Html {
    let mut html = Html::of("<section class=\"card\"><h2>Password</h2>", &[]);
    let form = AdminForm::begin(visit, "set-password", "column", "/user", &mut html);
    html.add("<input type=\"hidden\" name=\"jid\" value=\"{}\">", &[account]);
    let hint = format!("{} characters at least; all sessions of the account end", visit.least(account.domain()));
    let password = AdminField {
        name: "password",
        label: "New password",
        hint: &hint,
        rules: NEW_PASSWORD_RULES,
        ..AdminField::default()
    };
    form.input(password, &mut html);
    html.add(
        "<div><button name=\"act\" value=\"password\">Set</button></div></form>\
         <p class=\"faint\">Or send them a link: <a href=\"/admin/invitations?jid={}\">Invitations</a>.</p></section>",
        &[&encode(account.as_str())],
    );
    html
}

fn state(visit: &Visit, user: &OperationUser) -> Html {
    let mut html = Html::of("<section class=\"card\"><h2>Access</h2>", &[]);
    match user.is_disabled {
        true => {
            html.add("<p>Nobody can log in to this account.</p>", &[]);
            html.push(&act(visit, &user.jid, "enable", "enable", "Enable", ""));
        }
        false => {
            html.add("<p>A disabled account keeps everything; its sessions end and nobody can log in.</p>", &[]);
            html.push(&act(visit, &user.jid, "disable", "disable", "Disable", "quiet"));
        }
    }
    html.add("</section>", &[]);
    html
}

fn data(visit: &Visit, account: &Jid) -> Html {
    let mut html = Html::of(
        "<section class=\"card\"><h2>Data</h2><p>The export has all that is kept, the keys of the password included (XEP-0227).</p>",
        &[],
    );
    html.push(&act(visit, account, "export", "export", "Export", "quiet"));
    html.push(&erasure(visit, account));
    html.add("</section>", &[]);
    html
}

fn erasure(visit: &Visit, account: &Jid) -> Html {
    let mut inner = Html::default();
    let form = AdminForm::begin(visit, "erase", "column", "/user", &mut inner);
    inner.add("<input type=\"hidden\" name=\"jid\" value=\"{}\">", &[account]);
    let label = format!("This can't be undone. Write {account} to confirm");
    form.input(AdminField { name: "confirm", label: &label, rules: NAME_RULES, ..AdminField::default() }, &mut inner);
    let mut html = Html::of("<details", &[]);
    html.add(if form.returned().is_some() { " open" } else { "" }, &[]);
    html.add("><summary>Erase the account</summary>", &[]);
    html.push(&inner);
    html.add("<button class=\"danger\" name=\"act\" value=\"erase\">Erase</button></form></details>", &[]);
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
