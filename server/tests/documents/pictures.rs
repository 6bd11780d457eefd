//! Draws the pictures of the book that show steps, from these tables, and tests that each function
//! in them exists in the file that is named.

use std::fs;

use super::steps::{PictureStep, StepPicture, draw};
use super::tree::Tree;

const PICTURES: &[(&str, StepPicture)] = &[
    ("doc/pictures/message-across-nodes.svg", MESSAGE),
    ("doc/pictures/take-over.svg", TAKE_OVER),
    ("doc/pictures/reading.svg", READING),
];

const MESSAGE: StepPicture = StepPicture {
    title: "A message from Juliet to Romeo, who are at home on two nodes",
    parts: &["Juliet", "her|front", "her home", "Redis", "Romeo's|home"],
    steps: &[
        step(0, 1, ("shard/away.rs", "send_home"), "The front decrypts what her client sends."),
        step(1, 2, ("shard/lines.rs", "arrived"), "The bytes arrive on a line, which is read like a socket."),
        step(2, 2, ("hub/inbound.rs", "stanza"), "The stanza is counted and enters a custody."),
        step(2, 2, ("hub/route.rs", "route"), "The view names a shard of another node as Romeo's home."),
        step(2, 2, ("shard/outgoing.rs", "take_mail"), "At the end of the tick, mail for other nodes is encoded."),
        step(2, 3, ("cluster/carrying.rs", "append"), "One entry takes all letters that wait for that node."),
        step(3, 4, ("cluster/courier.rs", "arrived"), "Only the entry with the next number is accepted."),
        step(4, 4, ("hub/post.rs", "mail_from_afar"), "The mail is opened in a custody of this node."),
        step(4, 4, ("hub/route.rs", "push"), "His session gets a reference, which its line writes."),
        step(
            4,
            3,
            ("cluster/journal.rs", "write_journal"),
            "The journal gets the stanza, with a share in the custody.",
        ),
        step(3, 4, ("cluster/journal.rs", "journaled"), "Redis has it, and the share is given up."),
        step(4, 3, ("cluster/courier.rs", "note_handled"), "When no share is left, the letter is confirmed."),
        step(3, 2, ("hub/management.rs", "settled"), "So the custody at her home ends as well."),
        step(2, 3, ("hub/journal.rs", "journal"), "Her journal gets the new count of handled stanzas."),
        step(3, 2, ("hub/management.rs", "tell_journaled"), "Redis has it, so her client may be told that count."),
        step(2, 1, ("shard/away.rs", "write_away"), "The acknowledgement leaves on the line."),
    ],
};

const TAKE_OVER: StepPicture = StepPicture {
    title: "The home of a session dies, and another node takes over",
    parts: &["Juliet", "her|front", "next home", "Redis", "database"],
    steps: &[
        step(3, 2, ("cluster/death.rs", "leases"), "A process has had no lease for too long."),
        step(2, 4, ("cluster/members.rs", "take_over"), "It is fenced off, and then its row is removed."),
        step(4, 1, ("cluster/death.rs", "rows"), "Every node sees that, and fences it off once more."),
        step(1, 2, ("cluster/death.rs", "send_again"), "Letters that it hadn't confirmed go to the next homes."),
        step(2, 2, ("hub/moves.rs", "change_homes"), "The homes arrive; mail for them is kept for now."),
        step(1, 1, ("shard/following.rs", "await_home"), "The front keeps her connection and reads no more."),
        step(3, 2, ("cluster/journal.rs", "look_up"), "The journal of the dead process is closed and read."),
        step(2, 2, ("hub/recovering.rs", "recovered"), "It becomes cards, as if the node had stopped in order."),
        step(2, 2, ("hub/going_on.rs", "go_on"), "The sessions are there, and wait for their clients."),
        step(1, 2, ("shard/following.rs", "follow"), "The front asks the next home to continue."),
        step(2, 2, ("shard/taking_up.rs", "take_up"), "The counts of XEP-0198 show where both sides are."),
        step(2, 1, ("shard/following.rs", "has_home_again"), "The front sends what it has kept, and reads again."),
        step(1, 0, ("shard/away.rs", "write_away"), "Stanzas that hadn't reached her follow."),
    ],
};

const READING: StepPicture = StepPicture {
    title: "One reading for a client and for the chat",
    parts: &["client", "chat", "service", "pool", "front-end"],
    steps: &[
        step(0, 2, ("dpm/service/listing.rs", "add"), "A request enters the client's list."),
        step(2, 2, ("dpm/service/listing.rs", "find"), "The device database says where and how it is read."),
        step(2, 3, ("dpm/pool.rs", "join"), "An entry stands for one thing read at one event."),
        step(1, 2, ("dpm/inside.rs", "add"), "A client without a socket asks for the same device."),
        step(2, 3, ("dpm/service/listing.rs", "join_entry"), "This list joins the entry that is there."),
        step(3, 3, ("dpm/pool/acnet/grouping.rs", "pack"), "Entries become requests as large as a datagram."),
        step(3, 4, ("dpm/pool/acnet/wire.rs", "send"), "The front-end is asked once."),
        step(4, 3, ("dpm/pool/acnet/reply.rs", "reply"), "The reply is found by its id."),
        step(3, 3, ("dpm/pool/acnet/reply.rs", "split"), "It is divided among its entries."),
        step(3, 3, ("dpm/pool/entry.rs", "take"), "A value is scaled and encoded once for each form."),
        step(3, 2, ("dpm/service/output.rs", "push"), "Each outbox gets a reference to it."),
        step(2, 0, ("dpm/sdd/shared.rs", "write"), "The client's own number is spliced in."),
        step(2, 1, ("dpm/inside.rs", "replies"), "The node's home shard gets it by an errand."),
        step(1, 1, ("pubsub/data/pace.rs", "send"), "It becomes one packet for all subscribers."),
    ],
};

const fn step(from: usize, to: usize, by: (&'static str, &'static str), says: &'static str) -> PictureStep {
    PictureStep { from, to, by, says }
}

#[test]
fn the_functions_in_pictures_exist() {
    let tree = Tree::read();
    let mut faults = Vec::new();
    for (path, picture) in PICTURES {
        assert!(picture.steps.len() > 5, "{path} has few steps");
        for PictureStep { by: (file, name), from, to, says } in picture.steps {
            assert!(from.max(to) < &picture.parts.len(), "{path}: {file}: {name} is at no part");
            assert!(says.chars().count() <= LONGEST, "{path}: too long for the picture: {says}");
            let (crate_name, below) = file.split_once('/').expect("a path with the name of its crate");
            let source = format!("crates/{crate_name}/src/{below}");
            if !tree.has(&source) || !has_function(&tree.text(&source), name) {
                faults.push(format!("{path}: {source} has no function `{name}`"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn pictures_of_steps_are_up_to_date() {
    let tree = Tree::read();
    for (path, picture) in PICTURES {
        let drawn = draw(picture);
        if std::env::var_os("UPDATE_DOC").is_some() {
            fs::write(tree.path(path), &drawn).expect("a picture that can be written");
        }
        let kept = fs::read_to_string(tree.path(path)).unwrap_or_default();
        assert!(kept == drawn, "{path} differs from the steps: UPDATE_DOC=1 draws it again");
        let name = path.rsplit('/').next().unwrap_or_default();
        let shows = |page: &&str| tree.text(page).contains(&format!("pictures/{name})"));
        let pages = tree.ending(".md").filter(|page| page.starts_with("doc/book/")).filter(shows);
        assert!(pages.count() > 0, "no page of the book shows {path}");
    }
}

#[test]
fn a_function_is_found_by_its_whole_name() {
    let text = "impl A {\n    fn take_up(&mut self) {}\n    fn look<T>(of: T) {}\n}\n// fn gone()\n";
    assert!(has_function(text, "take_up") && has_function(text, "look"));
    assert!(!has_function(text, "take") && !has_function(text, "up") && !has_function(text, "gone"));
}

/// Returns whether a file defines a function of that name, outside of comments.
fn has_function(text: &str, name: &str) -> bool {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut after = code.filter_map(|line| line.split_once(&format!("fn {name}")).map(|(_, after)| after));
    after.any(|after| after.starts_with(['(', '<']))
}

/// The most characters of a step's sentence that fit beside the arrows.
const LONGEST: usize = 58;
