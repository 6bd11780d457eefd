//! Rights in rooms: a user without the right to a command gets `forbidden`, and the command changes
//! nothing (§8 to §10).

use super::*;

const ADMIN: &str = "http://jabber.org/protocol/muc#admin";
const OWNER: &str = "http://jabber.org/protocol/muc#owner";

/// The type and the payload of a request, which are the same for all senders.
type RightCommand = (&'static str, String);

fn items(type_: &'static str, items: &str) -> RightCommand {
    (type_, format!("<query xmlns='{ADMIN}'>{items}</query>"))
}

/// Returns the commands that need a moderator.
fn of_moderators() -> Vec<RightCommand> {
    let mut commands: Vec<_> =
        ["participant", "visitor"].map(|role| items("get", &format!("<item role='{role}'/>"))).to_vec();
    // The reply is the same for a nick that nobody has, so that it doesn't tell who is in the room.
    for nick in ["firstwitch", "secondwitch", "thirdwitch", "nobody"] {
        commands.extend(
            ["none", "visitor", "participant"]
                .map(|role| items("set", &format!("<item nick='{nick}' role='{role}'/>"))),
        );
    }
    commands.push((
        "set",
        "<moderate xmlns='urn:xmpp:message-moderate:1' id='1'><retract xmlns='urn:xmpp:message-retract:1'/></moderate>"
            .into(),
    ));
    commands
}

/// Returns the commands that need an admin.
fn of_admins() -> Vec<RightCommand> {
    let mut commands =
        vec![items("get", "<item affiliation='outcast'/>"), items("get", "<item affiliation='member'/>")];
    commands.push(items("get", "<item role='moderator'/>"));
    for affiliation in ["outcast", "none", "member", "admin", "owner"] {
        for whom in ["jid='CRONE'", "jid='WICCA'", "jid='nobody@example.org'", "nick='firstwitch'", "nick='nobody'"] {
            commands.push(items("set", &format!("<item affiliation='{affiliation}' {whom}/>")));
        }
    }
    commands.push(items("set", "<item nick='secondwitch' role='moderator'/>"));
    for command in ["create", "destroy", "list", "assign", "unassign", "list-assigned"] {
        let node = format!("urn:xmpp:hats:commands:{command}");
        commands.push(("set", format!("<command xmlns='http://jabber.org/protocol/commands' node='{node}'/>")));
    }
    commands
}

/// Returns the commands that need an owner.
fn of_owners() -> Vec<RightCommand> {
    let mut commands = vec![items("get", "<item affiliation='admin'/>"), items("get", "<item affiliation='owner'/>")];
    for affiliation in ["admin", "owner"] {
        commands.push(items("set", &format!("<item affiliation='{affiliation}' jid='nobody@example.org'/>")));
    }
    for affiliation in ["none", "member", "admin"] {
        commands.push(items("set", &format!("<item affiliation='{affiliation}' jid='CRONE'/>")));
    }
    let owner = |content: &str| format!("<query xmlns='{OWNER}'>{content}</query>");
    commands.push(("get", owner("")));
    commands.push(("set", owner("<x xmlns='jabber:x:data' type='submit'/>")));
    commands.push(("set", owner("<x xmlns='jabber:x:data' type='cancel'/>")));
    commands.push(("set", owner("<destroy/>")));
    commands.push(("set", "<vCard xmlns='vcard-temp'><FN>Mine</FN></vCard>".into()));
    commands
}

#[track_caller]
fn all_forbidden(s: &mut RoomScene, commands: Vec<RightCommand>, who: &str) {
    for (type_, payload) in commands {
        let payload = s.with_names(&payload);
        let answer = ask(&mut s.hag, COVEN, type_, &payload);
        assert_eq!(outcome(&answer), "forbidden", "{who}: {payload}");
        assert_eq!(answer.child("error", ns::CLIENT).unwrap().attr("type"), Some("auth"));
    }
    s.crone.expect_nothing();
    s.wiccarocks.expect_nothing();
}

#[test]
fn who_has_no_right_is_forbidden_everything() {
    let mut s = RoomScene::open_scene();
    join(&mut s.wiccarocks, "secondwitch");
    s.hush();
    let everything = || [of_moderators(), of_admins(), of_owners()].concat();
    all_forbidden(&mut s, everything(), "a stranger");
    join(&mut s.hag, "thirdwitch");
    s.hush();
    all_forbidden(&mut s, everything(), "a participant");
    let member = s.with_names("<item affiliation='member' jid='HAG'/>");
    administer(&mut s.crone, "set", &member);
    s.hush();
    all_forbidden(&mut s, everything(), "a member");
    administer(&mut s.crone, "set", "<item nick='thirdwitch' role='moderator'/>");
    s.hush();
    all_forbidden(&mut s, [of_admins(), of_owners()].concat(), "a moderator");
    let admin = s.with_names("<item affiliation='admin' jid='HAG'/>");
    administer(&mut s.crone, "set", &admin);
    s.hush();
    all_forbidden(&mut s, of_owners(), "an admin");
}

/// The same for requests that are messages.
#[test]
fn messages_need_rights_too() {
    let mut s = RoomScene::configure_scene("membersonly=1 moderatedroom=1");
    let member = s.with_names("<item affiliation='member' jid='HAG'/>");
    administer(&mut s.crone, "set", &member);
    let mut s = s.all_in();
    administer(&mut s.crone, "set", "<item nick='thirdwitch' role='visitor'/>");
    s.hush();
    let form = |type_: &str, fields: &str| {
        format!(
            "<message to='{COVEN}'><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
             <value>http://jabber.org/protocol/muc#{type_}</value></field>{fields}</x></message>"
        )
    };
    let allow = |type_: &str| {
        format!(
            "<field var='muc#roomnick'><value>thirdwitch</value></field><field var='muc#register_roomnick'>\
             <value>thirdwitch</value></field><field var='muc#{type_}_allow'><value>1</value></field>"
        )
    };
    for message in [
        format!("<message to='{COVEN}' type='groupchat'><body>x</body></message>"),
        format!("<message to='{COVEN}' type='groupchat'><subject>x</subject></message>"),
        format!("<message to='{COVEN}'><x xmlns='{}'><invite to='a@x.example'/></x></message>", ns::MUC_USER),
        form("request", &allow("request")),
        form("register", &allow("register")),
    ] {
        s.hag.send(&message);
        s.hag_hears(&["ROOM message/error forbidden"]);
    }
    s.crone.expect_nothing();
}
