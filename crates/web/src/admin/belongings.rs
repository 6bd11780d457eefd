//! The part of a user's page that shows what belongs to the account: its contacts, the files that
//! it shares, and the size of its archive. Nothing can be changed here.

use rookery_jid::Jid;
use rookery_operations::{Outcome, archives, rosters};
use rookery_store::{RosterItem, Slot, Subscription};

use super::Visit;
use super::frame::{away, moment};
use super::graph::bytes;
use crate::ask::now_ms;
use crate::html::Html;
use crate::words::AdminWords;

/// Returns the sections about the contacts, the files and the archive of an account.
pub async fn sections(visit: &Visit, account: &Jid) -> Outcome<Html> {
    let (shared, stores) = (&visit.shared, &visit.shared.stores);
    // All questions are queued before the first answer is awaited.
    let contacts = rosters::list(stores, account.as_ref());
    let files = stores.slots.files_of(account.as_ref(), now_ms(), MOST_SHOWN + 1);
    let (count, newest) =
        (archives::count(stores, account.as_ref(), MOST_COUNTED), archives::newest(stores, account.as_ref()));
    let contacts = shared.wait(contacts).await??;
    let files = shared.wait(files).await?;
    let (count, newest) = (shared.wait(count).await?, shared.wait(newest).await?);
    let mut html = archive(visit, count, newest);
    html.push(&roster(visit, &contacts));
    html.push(&shared_files(visit, &files));
    Ok(html)
}

/// Returns the line about the archive. `count` is `None` if the archive has more messages than are
/// counted.
fn archive(visit: &Visit, count: Option<usize>, newest_ms: Option<u64>) -> Html {
    let words = visit.words();
    let mut html = Html::of("<p id=\"archive\" class=\"faint\">", &[]);
    match count {
        Some(count) => html.add("{}", &[&visit.language.count(words.archived, count as u64)]),
        None => html.text(words.many_archived, &[&MOST_COUNTED]),
    }
    if let Some(newest_ms) = newest_ms {
        html.add(", ", &[]);
        html.push(&away(newest_ms));
    }
    html.add("</p>", &[]);
    html
}

fn roster(visit: &Visit, contacts: &[RosterItem]) -> Html {
    let words = visit.words();
    let mut html = Html::of(
        "<section class=\"card\"><details id=\"contacts\"><summary>{} <span class=\"faint\">{}</span></summary>",
        &[&words.contacts_shown, &contacts.len()],
    );
    if contacts.is_empty() {
        html.add("<p class=\"faint\">{}</p></details></section>", &[&words.none]);
        return html;
    }
    html.add(
        "<div class=\"scroll\"><table><thead><tr><th>{}<th>{}<th>{}<th>{}</tr></thead><tbody>",
        &[&words.address, &words.name, &words.groups, &words.state],
    );
    for contact in contacts.iter().take(MOST_SHOWN) {
        html.add(
            "<tr><td data-label=\"{}\"><code>{}</code><td data-label=\"{}\">{}<td data-label=\"{}\">{}<td data-label=\"{}\">{}</tr>",
            &[
                &words.address,
                &contact.jid,
                &words.name,
                &contact.name.as_deref().unwrap_or("–"),
                &words.groups,
                &contact.groups.join(", "),
                &words.state,
                &subscription(words, contact.subscription),
            ],
        );
    }
    html.add("</tbody></table></div>", &[]);
    html.push(&note_of_cut(words, contacts.len()));
    html.add("</details></section>", &[]);
    html
}

fn shared_files(visit: &Visit, files: &[Slot]) -> Html {
    let words = visit.words();
    let mut html = Html::of(
        "<section class=\"card\"><details id=\"files\"><summary>{} <span class=\"faint\">{}</span></summary>",
        &[&words.shared_files, &files.len().min(MOST_SHOWN)],
    );
    if files.is_empty() {
        html.add("<p class=\"faint\">{}</p></details></section>", &[&words.none]);
        return html;
    }
    html.add(
        "<div class=\"scroll\"><table><thead><tr><th>{}<th>{}<th class=\"number\">{}<th>{}</tr></thead><tbody>",
        &[&words.name, &words.kind, &words.storage, &words.good_until],
    );
    for file in files.iter().take(MOST_SHOWN) {
        let size = visit.language.amount(&bytes(file.size as f64));
        html.add(
            "<tr><td data-label=\"{}\">{}<td data-label=\"{}\">{}<td class=\"number\" data-label=\"{}\">{}<td data-label=\"{}\">",
            &[
                &words.name,
                &file.name,
                &words.kind,
                &file.content_type.as_deref().unwrap_or("–"),
                &words.storage,
                &size,
                &words.good_until,
            ],
        );
        html.push(&moment(file.expires_ms));
        html.add("</tr>", &[]);
    }
    html.add("</tbody></table></div>", &[]);
    html.push(&note_of_cut(words, files.len()));
    html.add("</details></section>", &[]);
    html
}

/// Returns the note below a list of which only the beginning is shown; it is empty if all is shown.
fn note_of_cut(words: &AdminWords, count: usize) -> Html {
    let mut html = Html::default();
    if count > MOST_SHOWN {
        html.add("<p class=\"faint\">", &[]);
        html.text(words.first_shown, &[&MOST_SHOWN]);
        html.add("</p>", &[]);
    }
    html
}

/// Returns the state of a contact (RFC 6121 §2.1.2.5) in a language.
fn subscription(words: &AdminWords, state: Subscription) -> &'static str {
    match state {
        Subscription::Both => words.sees_each_other,
        Subscription::To => words.sees_contact,
        Subscription::From => words.is_seen,
        Subscription::None => words.sees_nothing,
    }
}

/// The most contacts, and the most files, that are shown.
const MOST_SHOWN: usize = 500;
/// The number up to which the messages of an archive are counted.
const MOST_COUNTED: usize = 100_000;
