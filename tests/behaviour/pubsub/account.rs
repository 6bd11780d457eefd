//! Data that accounts keep in their nodes or beside them: private storage (XEP-0049), bookmarks
//! (XEP-0402), vCards and avatars (XEP-0054, XEP-0084, XEP-0398).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rookery_testkit::befriend;
use sha1::{Digest, Sha1};

use super::*;

const BOOKMARKS: &str = "urn:xmpp:bookmarks:1";
const METADATA: &str = "urn:xmpp:avatar:metadata";
const DATA: &str = "urn:xmpp:avatar:data";

fn private(client: &mut Client, type_: &str, content: &str) -> Element {
    client.ask(&format!("<iq type='{type_}' id='p'><query xmlns='jabber:iq:private'>{content}</query></iq>"))
}

/// Returns the only element in the reply to a request for private storage.
fn private_element(client: &mut Client, name: &str) -> String {
    let answer = is_result(private(client, "get", name));
    let query = answer.children().next().expect("query");
    query.children().map(xml).collect()
}

fn conference(id: &str, name: &str) -> String {
    format!(
        "<item id='{id}'><conference xmlns='{BOOKMARKS}' name='{name}' autojoin='true'><nick>JC</nick></conference></item>"
    )
}

fn bookmark_options() -> String {
    options(&[
        ("persist_items", "true"),
        ("max_items", "max"),
        ("send_last_published_item", "never"),
        ("access_model", "whitelist"),
    ])
}

/// XEP-0049 §2, §3.
#[test]
fn private_storage_is_for_its_owner_alone() {
    let PubsubScene { server, mut hamlet, mut francisco } = PubsubScene::new();
    let exodus = "<exodus xmlns='exodus:prefs'><defaultnick>Hamlet</defaultnick></exodus>";
    is_result(private(&mut hamlet, "set", exodus));
    assert_eq!(private_element(&mut hamlet, "<exodus xmlns='exodus:prefs'/>"), exodus);
    assert_eq!(private_element(&mut hamlet, "<exodus xmlns='other:prefs'/>"), "<exodus xmlns='other:prefs'/>");
    assert_eq!(private_element(&mut francisco, "<exodus xmlns='exodus:prefs'/>"), "<exodus xmlns='exodus:prefs'/>");
    for (type_, content, expected) in [
        ("get", "", "modify not-acceptable"),
        ("set", "", "modify not-acceptable"),
        ("set", "<storage/>", "modify not-acceptable"),
        ("get", "<a xmlns='urn:a'/><b xmlns='urn:b'/>", "modify not-acceptable"),
        ("set", &format!("<a xmlns='urn:a'>{}</a>", "x".repeat(70_000)), "modify policy-violation"),
    ] {
        assert_eq!(error(&private(&mut hamlet, type_, content)), expected, "{}", &content[..content.len().min(50)]);
    }
    for account in [hamlet.bare(), "nobody@example.org"] {
        let iq = format!(
            "<iq type='get' id='p' to='{account}'><query xmlns='jabber:iq:private'><a xmlns='urn:a'/></query></iq>"
        );
        assert_eq!(error(&francisco.ask(&iq)), "auth forbidden");
    }
    for number in 0..99 {
        is_result(private(&mut hamlet, "set", &format!("<a xmlns='urn:{number}'/>")));
    }
    assert_eq!(error(&private(&mut hamlet, "set", "<a xmlns='urn:more'/>")), "modify policy-violation");
    is_result(private(&mut hamlet, "set", "<a xmlns='urn:1'>again</a>"));
    drop(server);
}

/// XEP-0402 §5, XEP-0411: bookmarks are the same in all of their forms.
#[test]
fn bookmarks_are_translated() {
    let mut hamlet = PubsubScene::new().hamlet;
    let theplay = "theplay@conference.shakespeare.lit";
    let add =
        format!("<publish node='{BOOKMARKS}'>{}</publish>{}", conference(theplay, "The Play"), bookmark_options());
    set(&mut hamlet, "", &add);
    let old = |id: &str, name: &str| {
        format!("<conference jid='{id}' name='{name}' autojoin='true'><nick>JC</nick></conference>")
    };
    let storage = |content: &str| format!("<storage xmlns='storage:bookmarks'>{content}</storage>");
    let asked = "<storage xmlns='storage:bookmarks'/>";
    assert_eq!(private_element(&mut hamlet, asked), storage(&old(theplay, "The Play")));

    // A client of the older kind adds a bookmark, changes another, and then removes one.
    let both = [old(theplay, "Other"), old("orchard@conference.shakespeare.lit", "The Orchard")].concat();
    is_result(private(&mut hamlet, "set", &storage(&both)));
    let items = format!("<items node='{BOOKMARKS}'/>");
    let found = get(&mut hamlet, "", &items);
    assert_eq!(ids(&found), [theplay, "orchard@conference.shakespeare.lit"]);
    assert!(xml(&found).contains("name='Other'"));
    is_result(private(&mut hamlet, "set", &storage(&old(theplay, "Other"))));
    assert_eq!(ids(&get(&mut hamlet, "", &items)), [theplay]);

    // The form of XEP-0048 can also be published in a node.
    let publish = format!("<publish node='storage:bookmarks'><item id='current'>{}</item></publish>", storage(&both));
    set(&mut hamlet, "", &format!("{publish}{}", options(&[("access_model", "whitelist")])));
    assert_eq!(ids(&get(&mut hamlet, "", &items)).len(), 2);
    let found = get(&mut hamlet, "", "<items node='storage:bookmarks'/>");
    assert!(xml(&found).contains(&storage(&both)), "{}", xml(&found));
    assert_eq!(error(&private(&mut hamlet, "set", &storage("<conference jid='@'/>"))), "modify jid-malformed");
    is_result(private(&mut hamlet, "set", asked));
    assert_eq!(private_element(&mut hamlet, asked), asked);
}

/// XEP-0402 §2: additions of a newer client stay when an older client writes the bookmark.
#[test]
fn extensions_of_bookmarks_stay() {
    let mut hamlet = PubsubScene::new().hamlet;
    let id = "theplay@conference.shakespeare.lit";
    let extensions = "<extensions><state xmlns='urn:x' minimized='true'/></extensions>";
    let item = format!("<item id='{id}'><conference xmlns='{BOOKMARKS}' name='A'>{extensions}</conference></item>");
    set(&mut hamlet, "", &format!("<publish node='{BOOKMARKS}'>{item}</publish>{}", bookmark_options()));
    let renamed = format!("<storage xmlns='storage:bookmarks'><conference jid='{id}' name='B'/></storage>");
    is_result(private(&mut hamlet, "set", &renamed));
    let found = xml(&get(&mut hamlet, "", &format!("<items node='{BOOKMARKS}'/>")));
    assert!(found.contains("name='B'") && found.contains(extensions), "{found}");
}

/// XEP-0411 §5: a translation never makes bookmarks visible to others.
#[test]
fn bookmarks_that_others_see_are_not_written() {
    let mut hamlet = PubsubScene::new().hamlet;
    let open = options(&[("access_model", "open")]);
    set(&mut hamlet, "", &format!("<publish node='{BOOKMARKS}'>{}</publish>{open}", conference("a@b.example", "A")));
    let storage = "<storage xmlns='storage:bookmarks'><conference jid='c@d.example'/></storage>";
    assert_eq!(error(&private(&mut hamlet, "set", storage)), "cancel not-allowed");
}

/// XEP-0054 §3.
#[test]
fn cards_are_kept_for_the_account_and_shown_to_all() {
    let PubsubScene { mut hamlet, mut francisco, .. } = PubsubScene::new();
    let ask = |client: &mut Client, type_: &str, to: &str, card: &str| {
        let to = if to.is_empty() { String::new() } else { format!(" to='{to}'") };
        client.ask(&format!("<iq type='{type_}' id='v'{to}>{card}</iq>"))
    };
    let (empty, owner) = ("<vCard xmlns='vcard-temp'/>", hamlet.bare().to_owned());
    let card = "<vCard xmlns='vcard-temp'><FN>Hamlet</FN><URL>http://elsinore.example/</URL></vCard>";
    let own = is_result(ask(&mut hamlet, "get", "", empty));
    assert_eq!(xml(own.children().next().expect("a card")), empty);
    for account in [owner.as_str(), "nobody@example.org"] {
        assert_eq!(error(&ask(&mut francisco, "get", account, empty)), "cancel item-not-found");
        assert_eq!(error(&ask(&mut francisco, "set", account, card)), "auth forbidden");
    }
    is_result(ask(&mut hamlet, "set", "", card));
    let found = is_result(ask(&mut francisco, "get", &owner, empty));
    assert_eq!(xml(found.children().next().expect("a card")), card);
    let large = format!("<vCard xmlns='vcard-temp'><DESC>{}</DESC></vCard>", "x".repeat(200_000));
    assert_eq!(error(&ask(&mut hamlet, "set", "", &large)), "modify policy-violation");
}

/// Returns the image of these tests, in Base64, and its hash.
fn image() -> (String, String) {
    let bytes = b"not a real image";
    (STANDARD.encode(bytes), Sha1::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}

fn publish_avatar(client: &mut Client, access: &str) {
    let (base64, hash) = image();
    let access = options(&[("access_model", access)]);
    let data =
        format!("<publish node='{DATA}'><item id='{hash}'><data xmlns='{DATA}'>{base64}</data></item></publish>");
    set(client, "", &format!("{data}{access}"));
    let info = format!(
        "<info id='{hash}' type='image/png' bytes='16'/><info id='x' type='image/gif' bytes='1' url='http://x/'/>"
    );
    let metadata = format!(
        "<publish node='{METADATA}'><item id='{hash}'><metadata xmlns='{METADATA}'>{info}</metadata></item></publish>"
    );
    set(client, "", &format!("{metadata}{access}"));
}

/// Returns the hash of the photo in the last presence that a client has got.
fn photo(client: &mut Client) -> Option<String> {
    let all = client.all();
    let presence = all.iter().rev().find(|element| element.name() == "presence")?;
    presence.child("x", "vcard-temp:x:update")?.child_text("photo", "vcard-temp:x:update")
}

/// XEP-0398 §3.1, §4: the avatar becomes the photo. Presence has the photo's hash, unless the
/// client forbids that.
#[test]
fn avatars_become_photos() {
    let PubsubScene { mut hamlet, mut francisco, .. } = PubsubScene::new();
    befriend(&mut hamlet, &mut francisco);
    let (base64, hash) = image();
    publish_avatar(&mut hamlet, "open");
    assert_eq!(photo(&mut francisco), Some(hash.clone()), "at once");
    let owner = hamlet.bare().to_owned();
    let card = francisco.ask(&format!("<iq type='get' id='v' to='{owner}'><vCard xmlns='vcard-temp'/></iq>"));
    let binval = format!("<PHOTO><TYPE>image/png</TYPE><BINVAL>{base64}</BINVAL></PHOTO>");
    assert!(xml(&card).contains(&binval), "{}", xml(&card));
    let to = francisco.bare().to_owned();
    for (said, expected) in [
        ("", Some(hash.as_str())),
        ("<x xmlns='vcard-temp:x:update'/>", Some(&hash)),
        ("<x xmlns='vcard-temp:x:update'><photo>stale</photo></x>", Some(&hash)),
        ("<x xmlns='vcard-temp:x:update'><photo/></x>", Some("")),
    ] {
        hamlet.send(&format!("<presence>{said}</presence>"));
        assert_eq!(photo(&mut francisco).as_deref(), expected, "{said}");
        hamlet.send(&format!("<presence to='{to}'>{said}</presence>"));
        assert_eq!(photo(&mut francisco).as_deref(), expected, "directed, {said}");
    }
    hamlet.send("<presence/>");
    hamlet.all();
    set(
        &mut hamlet,
        "",
        &format!("<publish node='{METADATA}'><item id='none'><metadata xmlns='{METADATA}'/></item></publish>"),
    );
    assert_eq!(photo(&mut francisco).as_deref(), Some(""));
}

/// XEP-0398 §8: an avatar for contacts is not shown to everybody.
#[test]
fn avatars_for_contacts_stay_there() {
    let PubsubScene { mut hamlet, mut francisco, .. } = PubsubScene::new();
    befriend(&mut hamlet, &mut francisco);
    publish_avatar(&mut hamlet, "presence");
    assert_eq!(photo(&mut francisco), None);
    let owner = hamlet.bare().to_owned();
    let card = francisco.ask(&format!("<iq type='get' id='v' to='{owner}'><vCard xmlns='vcard-temp'/></iq>"));
    assert_eq!(error(&card), "cancel item-not-found");
}

/// XEP-0398 §3.2: the photo becomes the avatar.
#[test]
fn photos_become_avatars() {
    let PubsubScene { mut hamlet, mut francisco, .. } = PubsubScene::new();
    let (base64, hash) = image();
    let photo = format!("<PHOTO><TYPE>image/jpeg</TYPE><BINVAL>{base64}</BINVAL></PHOTO>");
    is_result(hamlet.ask(&format!("<iq type='set' id='v'><vCard xmlns='vcard-temp'>{photo}</vCard></iq>")));
    hamlet.all();
    let owner = hamlet.bare().to_owned();
    let metadata = get(&mut francisco, &owner, &format!("<items node='{METADATA}'/>"));
    let info = format!("<info id='{hash}' type='image/jpeg' bytes='16'/>");
    assert!(xml(&metadata).contains(&info), "{}", xml(&metadata));
    let data = get(&mut francisco, &owner, &format!("<items node='{DATA}'><item id='{hash}'/></items>"));
    assert!(xml(&data).contains(&base64));
    is_result(hamlet.ask("<iq type='set' id='v'><vCard xmlns='vcard-temp'><FN>H</FN></vCard></iq>"));
    hamlet.all();
    let metadata = xml(&get(&mut francisco, &owner, &format!("<items node='{METADATA}'/>")));
    assert!(metadata.contains(&format!("<metadata xmlns='{METADATA}'/>")), "{metadata}");
}
