//! Disables several accounts of the list at once, or enables them again: those that are ticked.

use rookery_jid::Jid;
use rookery_operations::{Refusal, users};

use super::fields::{FormAnswered, FormFault};
use super::frame::token;
use super::{FormDone, Visit};
use crate::html::Html;
use crate::language::fill;
use crate::words::AdminWords;

/// Returns the beginning of the form around the list; `part` has the fields that identify the shown
/// part.
pub fn begin(visit: &Visit, part: &[(&str, &str)]) -> Html {
    let mut html = Html::of("<form id=\"chosen\" method=\"post\" action=\"/admin/users\">", &[]);
    html.push(&token(&visit.seen));
    for (name, value) in part {
        html.add("<input type=\"hidden\" name=\"{}\" value=\"{}\">", &[name, value]);
    }
    html
}

/// Returns the checkbox of an account.
pub(crate) fn tick(words: &AdminWords, account: &Jid) -> Html {
    let label = fill(words.choose_one, &[account]);
    Html::of(
        "<td data-label=\"{}\"><input type=\"checkbox\" name=\"chosen\" value=\"{}\" aria-label=\"{}\">",
        &[&words.choose, account, &label],
    )
}

/// Returns the end of the form, with the buttons.
pub(crate) fn end(words: &AdminWords) -> Html {
    Html::of(
        "<p class=\"line\"><span class=\"faint\">{}</span> \
         <button class=\"quiet\" name=\"act\" value=\"disable\">{}</button> \
         <button class=\"quiet\" name=\"act\" value=\"enable\">{}</button></p></form>",
        &[&words.ticked, &words.disable, &words.enable],
    )
}

/// Disables the chosen accounts, which ends their sessions, or enables them, and returns to the
/// list at `here`. An account that can't be changed doesn't stop the others.
pub async fn change(visit: &Visit, disabled: bool, here: String) -> FormAnswered {
    let words = visit.words();
    let chosen: Vec<_> = visit.values("chosen").map(|written| visit.address_of(written)).collect::<Result<_, _>>()?;
    if chosen.is_empty() {
        let refusal = Refusal::Impossible(words.tick_some.into());
        return Err(FormFault::from(refusal));
    }
    let (mut changed, mut left) = (0, Vec::new());
    for account in chosen {
        if account == visit.seen.account {
            left.push(fill(words.is_your_own, &[&account]));
            continue;
        }
        let of = account.clone();
        let work = move |world: &mut _, answer: crate::ask::OperationAnswer<_>| {
            users::set_disabled(world, of, disabled, |_, set| answer.complete(set));
        };
        match visit.shared.ask(work).await {
            Ok(()) => {
                changed += 1;
                let act = if disabled { "disabled an account" } else { "re-enabled an account" };
                visit.note(account.domain(), format!("{act}: {account}"));
            }
            Err(refusal) => left.push(visit.in_words(refusal, &account, visit.of_accounts()).to_string()),
        }
    }
    let mut said = visit.language.count(if disabled { words.were_disabled } else { words.were_enabled }, changed);
    if !left.is_empty() {
        said = format!("{said} {}", fill(words.left_alone, &[&left.join("; ")]));
    }
    Ok(FormDone::new(here, said))
}
