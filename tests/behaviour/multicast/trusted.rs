//! The trusted route: what the server itself sends to many, here the presence of users with
//! contacts on other servers.

use rookery_jid::Jid;
use rookery_store::{Edit, EditRoster, RosterItem, Subscription};
use rookery_testkit::{Client, Server};

use super::discovery::{MulticastDiscovery, limits};
use super::{copies, to_pairs};

/// Returns a user with contacts `a` to `c` of a domain and one of another server, who all see each
/// other.
fn friend(server: &Server, domain: &str) -> Client {
    let owner = server.account("friend");
    for contact in [format!("a@{domain}"), format!("b@{domain}"), format!("c@{domain}"), "x@other.net".into()] {
        let jid = Jid::parse(&contact).expect("a contact");
        let item = RosterItem { subscription: Subscription::Both, ..RosterItem::new(jid.clone()) };
        let edit: EditRoster = Box::new(move |_, _| Edit::Put(item.clone()));
        server.finish(server.stores().rosters.change(owner.as_ref(), jid.as_ref(), edit)).expect("a roster");
    }
    server.login("friend/f")
}

/// Returns the copies of presence that left, probes left out, in the order of their addresses.
fn presence_copies(server: &Server) -> Vec<(String, String)> {
    let mut left = server.take_left();
    left.retain(|left| !left.text.contains("type='probe'"));
    let mut copies = copies(&left);
    copies.sort();
    copies
}

/// Presence leaves once for all contacts of a server: no header but the blind addresses, which only
/// that service sees.
#[test]
fn presence_leaves_as_one_stanza() {
    let discovery = MulticastDiscovery::knows("");
    let (server, domain) = (&discovery.scene.server, &discovery.domain);
    let mut friend = friend(server, domain);
    let all = format!("bcc:a@{domain} bcc:b@{domain} bcc:c@{domain}");
    let expected = to_pairs([(domain, &all), ("x@other.net", "no header")]);
    for presence in ["<presence/>", "<presence><show>away</show></presence>", "<presence type='unavailable'/>"] {
        friend.send(presence);
        friend.all();
        assert_eq!(presence_copies(server), expected, "{presence}");
    }
    friend.send("<presence/>");
    friend.all();
    server.take_left();
    friend.vanish();
    assert_eq!(presence_copies(server), expected, "at the end of the session");
}

/// As many at once as the service takes presences.
#[test]
fn a_remote_service_gets_no_more_recipients_at_once_than_it_takes() {
    let discovery = MulticastDiscovery::knows(&limits(&[("message", "1"), ("presence", "2")]));
    let (server, domain) = (&discovery.scene.server, &discovery.domain);
    friend(server, domain).send("<presence/>");
    let (two, one) = (format!("bcc:a@{domain} bcc:b@{domain}"), format!("bcc:c@{domain}"));
    assert_eq!(presence_copies(server), to_pairs([(domain, &two), (domain, &one), ("x@other.net", "no header")]));
}

/// Each contact gets its own copy where no service is known, and the server is asked.
#[test]
fn where_no_service_is_known_each_recipient_gets_a_copy() {
    let discovery = MulticastDiscovery::new();
    let (server, domain) = (&discovery.scene.server, &discovery.domain);
    friend(server, domain).send("<presence/>");
    let left = server.take_left();
    assert_eq!(left.iter().filter(|left| left.text.starts_with("<iq ") && left.to == *domain).count(), 1);
    // Presence, and probes (RFC 6121 §4.3.1), which go to each contact alone.
    let (probes, presence): (Vec<_>, Vec<_>) = left
        .into_iter()
        .filter(|left| !left.text.starts_with("<iq "))
        .partition(|left| left.text.contains("type='probe'"));
    let [a, b, c] = ["a", "b", "c"].map(|name| format!("{name}@{domain}"));
    let everybody = to_pairs([&a, &b, &c, "x@other.net"].map(|to| (to, "no header")));
    for stanzas in [probes, presence] {
        let mut copies = copies(&stanzas);
        copies.sort();
        assert_eq!(copies, everybody);
    }
}

/// A header that the user wrote into the broadcast is nobody's order: the service of the other
/// server must not see it as ours, however the namespace is written.
#[test]
fn a_header_in_a_broadcast_is_not_for_the_service() {
    let discovery = MulticastDiscovery::knows("");
    let (server, domain) = (&discovery.scene.server, &discovery.domain);
    let mut friend = friend(server, domain);
    let short = "to:victim@victim.net replyto:friend@example.org";
    let plain = super::addresses(short);
    for header in [&plain, &plain.replacen("jabber", "&#106;abber", 1), &with_prefix(&plain)] {
        friend.send(&format!("<presence>{header}</presence>"));
        friend.all();
        let [a, b, c] = ["a", "b", "c"].map(|name| format!("{name}@{domain}"));
        assert_eq!(presence_copies(server), to_pairs([(&a, short), (&b, short), (&c, short), ("x@other.net", short)]));
    }
    // At the end of the session, the server sends the presence.
    friend.vanish();
    let all = format!("bcc:a@{domain} bcc:b@{domain} bcc:c@{domain}");
    assert_eq!(presence_copies(server), to_pairs([(domain, &all), ("x@other.net", "no header")]));
}

fn with_prefix(header: &str) -> String {
    header.replace("xmlns=", "xmlns:p=").replace("</", "</p:").replace("<address", "<p:address")
}
