//! Actions of an administrator, by commands with forms (XEP-0050, XEP-0133).

use rookery_xml::{Element, ns};

use super::{DOMAIN, UserDevice, bare};
use crate::book::Book;

impl UserDevice {
    /// Begins a command about an account.
    pub(super) fn command(&mut self, choice: usize, account: usize, book: &mut Book) {
        let command = choice % COMMANDS.len();
        let node = COMMANDS[command];
        let execute = format!("<command xmlns='{}' node='{node}' action='execute'/>", ns::COMMANDS);
        let id = self.ask("command", "set", Some(DOMAIN), &execute, book);
        self.commands.insert(id, (command, account));
    }

    /// Fills in the form of a command, unless the command is complete.
    pub(super) fn go_on_with(&mut self, command: usize, account: usize, answer: &Element, book: &mut Book) {
        let Some(found) = answer.child("command", ns::COMMANDS) else { return };
        let (Some("executing"), Some(session)) = (found.attr("status"), found.attr("sessionid")) else { return };
        let Some(form) = found.child("x", ns::DATA_FORMS) else { return };
        let node = COMMANDS[command];
        let removes = node.ends_with("#delete-user");
        if removes && account == 0 {
            return;
        }
        let fields: String = form.children().filter_map(|field| filled_in(field, &bare(account))).collect();
        let form = format!("<x xmlns='{}' type='submit'>{fields}</x>", ns::DATA_FORMS);
        let attributes = format!("node='{node}' sessionid='{session}' action='complete'");
        let complete = format!("<command xmlns='{}' {attributes}>{form}</command>", ns::COMMANDS);
        let removal = removes.then(|| book.remove(account));
        if node.ends_with("#end-user-session") {
            book.dismissed.insert(account);
            book.end_sessions(|session| session.account == account);
        }
        let id = self.ask("command", "set", Some(DOMAIN), &complete, book);
        if let Some(removal) = removal {
            self.removing.insert(id, removal);
        }
    }
}

/// Returns a field with a value that fits its type.
fn filled_in(field: &Element, account: &str) -> Option<String> {
    let var = field.attr("var").filter(|_| field.name() == "field")?;
    let value = match field.attr("type") {
        Some("hidden") => field.child_text("value", ns::DATA_FORMS)?,
        Some("jid-single" | "jid-multi") => account.to_owned(),
        Some("boolean") => "0".to_owned(),
        Some("list-single") => {
            let option = field.children().find(|child| child.name() == "option");
            option.and_then(|option| option.child_text("value", ns::DATA_FORMS))?
        }
        _ => "text".to_owned(),
    };
    Some(format!("<field var='{var}'><value>{value}</value></field>"))
}

/// The commands that an administrator gives.
const COMMANDS: [&str; 10] = [
    "http://jabber.org/protocol/admin#delete-user",
    "http://jabber.org/protocol/admin#end-user-session",
    "http://jabber.org/protocol/admin#end-user-session",
    "http://jabber.org/protocol/admin#get-user-roster",
    "http://jabber.org/protocol/admin#get-user-lastlogin",
    "http://jabber.org/protocol/admin#user-stats",
    "http://jabber.org/protocol/admin#get-online-users-list",
    "http://jabber.org/protocol/admin#get-active-users",
    "http://jabber.org/protocol/admin#announce",
    "http://jabber.org/protocol/admin#set-motd",
];
