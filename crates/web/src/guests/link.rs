//! The pages that links open: an invitation to create an account (XEP-0401 §3), or setting a new
//! password (XEP-0445).

use hyper::{Response, StatusCode};
use rookery_jid::Jid;
use rookery_operations::invitations::{self, TOKEN_CHARS, fixed_name};
use rookery_operations::password;
use rookery_operations::registration::{self, BadName, Registration, Unregistered};
use rookery_store::Invitation;
use rookery_stream::error::Condition;

use super::frame::{GuestField, MAX_PASSWORD, time};
use super::guest::{WebGuest, lead};
use super::ready;
use crate::ask::now_ms;
use crate::form::value;
use crate::html::Html;
use crate::reply::Body;

/// The purpose of a link, which its path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestPurpose {
    Account,
    Password,
}

impl GuestPurpose {
    /// Returns the purpose and the token in a path; `None` if it isn't a link's.
    pub fn of_path(path: &str) -> Option<(Self, &str)> {
        [(Self::Account, "/invite/"), (Self::Password, "/reset/")]
            .into_iter()
            .find_map(|(purpose, folder)| Some((purpose, path.strip_prefix(folder)?)))
    }

    fn of(invitation: &Invitation) -> Self {
        match invitation.purpose {
            rookery_store::Purpose::Account(_) => Self::Account,
            rookery_store::Purpose::Password => Self::Password,
        }
    }

    fn path(self, token: &str) -> String {
        match self {
            Self::Account => format!("/invite/{token}"),
            Self::Password => format!("/reset/{token}"),
        }
    }
}

/// The mistakes in a form.
#[derive(Debug, Default)]
struct Faults {
    name: Option<Html>,
    password: Option<Html>,
    again: Option<Html>,
}

/// Returns the page of a link.
pub async fn page(guest: &WebGuest, purpose: GuestPurpose, token: &str) -> Response<Body> {
    match find(guest, token).await {
        Ok(found) if GuestPurpose::of(&found) != purpose => {
            lead(StatusCode::SEE_OTHER, &GuestPurpose::of(&found).path(&found.token))
        }
        Ok(found) => show(guest, &found, StatusCode::OK, "", Faults::default()),
        Err(response) => *response,
    }
}

/// Handles the form of a link.
pub async fn take(guest: &WebGuest, purpose: GuestPurpose, token: &str, given: &[(String, String)]) -> Response<Body> {
    let invitation = match find(guest, token).await {
        Ok(found) if GuestPurpose::of(&found) == purpose => found,
        Ok(_) => return spent_page(guest),
        Err(response) => return *response,
    };
    let name = value(given, "name").trim();
    let wanted = match read(guest, &invitation, name, given) {
        Ok(wanted) => wanted,
        Err(faults) => return show(guest, &invitation, StatusCode::UNPROCESSABLE_ENTITY, name, faults),
    };
    let account = wanted.account.clone();
    let asked = guest.shared.ask(move |world, answer| {
        registration::register(world, wanted, |_, outcome| answer.complete(Ok(outcome)));
    });
    let words = guest.words();
    let refused = match asked.await {
        Ok(Ok(())) => return lead(StatusCode::SEE_OTHER, &ready::path(&account, purpose == GuestPurpose::Account)),
        Ok(Err(refused)) => refused,
        Err(refusal) => return guest.fail(&refusal),
    };
    match refused {
        Unregistered::Taken => {
            guest.count_miss();
            let faults = Faults { name: Some(Html::of(words.name_taken, &[])), ..Faults::default() };
            show(guest, &invitation, StatusCode::CONFLICT, name, faults)
        }
        Unregistered::Used | Unregistered::Gone => spent_page(guest),
        Unregistered::Refused(error) if error.condition == Condition::NotAcceptable => {
            let faults = Faults { password: Some(Html::of(words.password_impossible, &[])), ..Faults::default() };
            show(guest, &invitation, StatusCode::UNPROCESSABLE_ENTITY, name, faults)
        }
        Unregistered::Refused(error) => guest.fail(&format!("{:?}", error.condition)),
    }
}

/// Finds the invitation of a valid token.
async fn find(guest: &WebGuest, token: &str) -> Result<Invitation, Box<Response<Body>>> {
    if let Some(held_back) = guest.held_back() {
        return Err(Box::new(held_back));
    }
    let is_token = token.len() == TOKEN_CHARS && token.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let found = match is_token {
        true => guest.shared.wait(guest.shared.stores.invitations.get(token, now_ms())).await,
        false => Ok(None),
    };
    match found {
        Ok(Some(found)) if guest.shared.has_module(&found.domain, "register") => Ok(found),
        Ok(_) => {
            guest.count_miss();
            Err(Box::new(spent_page(guest)))
        }
        Err(refusal) => Err(Box::new(guest.fail(&refusal))),
    }
}

/// Reads a form.
fn read(
    guest: &WebGuest,
    invitation: &Invitation,
    name: &str,
    given: &[(String, String)],
) -> Result<Registration, Faults> {
    let words = guest.words();
    let mut faults = Faults::default();
    let name = match GuestPurpose::of(invitation) {
        GuestPurpose::Account => name.to_owned(),
        GuestPurpose::Password => fixed_name(invitation).unwrap_or_default(),
    };
    let account = registration::account(&name, &invitation.domain, Some(invitation)).map_err(|why| {
        faults.name = Some(match why {
            BadName::Impossible => Html::of(words.name_impossible, &[]),
            BadName::MixesScripts => Html::of(words.name_mixes_scripts, &[]),
            BadName::OnlyFor(only) => Html::of(words.name_only, &[&only]),
        });
    });
    let (password, again) = (value(given, "password"), value(given, "again"));
    let (chars, least) = (password.chars().count(), least(guest, &invitation.domain));
    if (chars as u64) < least {
        faults.password = Some(Html::of(words.password_short, &[&least]));
    } else if chars > MAX_PASSWORD {
        faults.password = Some(Html::of(words.password_long, &[&MAX_PASSWORD]));
    } else if password != again {
        faults.again = Some(Html::of(words.password_differs, &[]));
    }
    match account {
        Ok(account) if faults.password.is_none() && faults.again.is_none() => Ok(Registration {
            // The creator of the link has approved the account already.
            waits: false,
            account,
            password: password.to_owned(),
            invitation: Some(invitation.clone()),
            address: guest.origin.address.ip(),
        }),
        _ => Err(faults),
    }
}

/// Returns the fewest characters of a new password in a domain.
fn least(guest: &WebGuest, domain: &str) -> u64 {
    password::least(&guest.shared.settings().hub, domain)
}

fn show(guest: &WebGuest, invitation: &Invitation, status: StatusCode, name: &str, faults: Faults) -> Response<Body> {
    let (words, domain) = (guest.words(), invitation.domain.as_str());
    let purpose = GuestPurpose::of(invitation);
    let frame = guest.frame(domain);
    let mut heading = Html::default();
    let title = match purpose {
        GuestPurpose::Account => {
            heading.add(words.invite_title, &[&frame.server]);
            words.invite_title.replace("{}", &frame.server)
        }
        GuestPurpose::Password => {
            heading.add(words.reset_title, &[]);
            words.reset_title.to_owned()
        }
    };
    let mut main = Html::of("<section class=\"card\"><h1>", &[]);
    main.push(&heading);
    main.add("</h1><p id=\"who\">", &[]);
    main.push(&introduction(guest, invitation));
    main.add("</p>", &[]);
    let has_faults = faults.name.is_some() || faults.password.is_some() || faults.again.is_some();
    if has_faults {
        main.add("<p class=\"notice\" id=\"notice\" role=\"alert\">{}</p>", &[&words.faults]);
    }
    main.push(&form(guest, invitation, name, faults));
    main.add("<p class=\"faint\">{} ", &[&words.good_until]);
    main.push(&time(invitation.expires_ms));
    main.add("</p></section>", &[]);
    if purpose == GuestPurpose::Account {
        let uri = invitations::uri(invitation, true);
        main.add(
            "<section class=\"card\"><h2>{}</h2><p><a class=\"button quiet\" id=\"in-app\" href=\"{}\">{}</a></p></section>",
            &[&words.have_app, &uri, &words.open_in_app],
        );
    }
    if let Some(pages) = guest.shared.pages(domain)
        && !guest.device.is_phone()
    {
        main.push(&ready::on_phone(guest, &format!("{pages}{}", purpose.path(&invitation.token))));
    }
    frame.response(status, &title, &main)
}

/// Returns the introduction: the inviter, or the account whose password is set.
fn introduction(guest: &WebGuest, invitation: &Invitation) -> Html {
    let words = guest.words();
    match (GuestPurpose::of(invitation), &invitation.owner) {
        (GuestPurpose::Account, Some(owner)) => {
            let mut html = Html::of(words.invited_by, &[owner]);
            html.add(" {}", &[&words.invited_more]);
            html
        }
        (GuestPurpose::Account, None) => Html::of(words.invited, &[]),
        (GuestPurpose::Password, owner) => {
            let account = owner.as_ref().map(Jid::to_string).unwrap_or_default();
            let mut html = Html::of(words.reset_for, &[&account]);
            html.add(" {}", &[&words.reset_effect]);
            html
        }
    }
}

fn form(guest: &WebGuest, invitation: &Invitation, name: &str, faults: Faults) -> Html {
    let (words, domain) = (guest.words(), &invitation.domain);
    let purpose = GuestPurpose::of(invitation);
    let least = least(guest, domain);
    let mut html = Html::of("<form id=\"link\" method=\"post\" action=\"{}\">", &[&purpose.path(&invitation.token)]);
    let fixed = fixed_name(invitation);
    let names_free = purpose == GuestPurpose::Account;
    let password_begins = faults.name.is_none() && (!name.is_empty() || fixed.is_some() || !names_free);
    if names_free {
        html.add("<h2>{}</h2>", &[&words.choose]);
        let rule = match &fixed {
            Some(local) => Html::of(words.name_fixed, &[&format!("{local}@{domain}")]),
            None => Html::of(words.name_rule, &[domain]),
        };
        let value = fixed.as_deref().unwrap_or(name);
        let (rule, fault) = (Some(rule), faults.name);
        let field =
            GuestField { name: "name", label: words.name, rule, fault, value, is_fixed: fixed.is_some(), least: None };
        html.push(&field.html(!password_begins));
    } else if let Some(account) = &invitation.owner {
        // This lets password managers store the password under the right name.
        html.add("<input name=\"account\" autocomplete=\"username\" value=\"{}\" readonly hidden>", &[account]);
    }
    let label = if names_free { words.password } else { words.new_password };
    let rule = Some(Html::of(words.password_rule, &[&least]));
    let password = GuestField {
        name: "password",
        label,
        rule,
        fault: faults.password,
        value: "",
        is_fixed: false,
        least: Some(least),
    };
    html.push(&password.html(password_begins));
    let again = GuestField { name: "again", label: words.password_again, rule: None, fault: faults.again, ..password };
    html.push(&again.html(false));
    let button = if names_free { words.create } else { words.set_password };
    html.add(
        "<div id=\"show-passwords\" data-label=\"{}\"></div><button id=\"send\">{}</button></form>",
        &[&words.show_passwords, &button],
    );
    html
}

fn spent_page(guest: &WebGuest) -> Response<Body> {
    let words = guest.words();
    guest.say(StatusCode::NOT_FOUND, words.spent_title, words.spent_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_a_purpose() {
        assert_eq!(GuestPurpose::of_path("/invite/abc"), Some((GuestPurpose::Account, "abc")));
        assert_eq!(GuestPurpose::of_path("/reset/abc"), Some((GuestPurpose::Password, "abc")));
        for other in ["/", "/invite", "/invites/a", "/admin/invite/a"] {
            assert_eq!(GuestPurpose::of_path(other), None, "{other}");
        }
        assert_eq!(GuestPurpose::of_path(&GuestPurpose::Password.path("x")), Some((GuestPurpose::Password, "x")));
    }
}
