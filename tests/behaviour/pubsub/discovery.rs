//! Discovery by clients: the domain, commands, and the forms of configurations as strict libraries
//! read them.

use super::*;

const INFO: &str = "http://jabber.org/protocol/disco#info";
const ITEMS: &str = "http://jabber.org/protocol/disco#items";
const COMMANDS: &str = "http://jabber.org/protocol/commands";
const GET_PENDING: &str = "http://jabber.org/protocol/pubsub#get-pending";

fn disco(client: &mut Client, to: &str, ns: &str, node: &str) -> Element {
    let node = if node.is_empty() { String::new() } else { format!(" node='{node}'") };
    is_result(client.ask(&format!("<iq type='get' id='d' to='{to}'><query xmlns='{ns}'{node}/></iq>")))
}

/// Returns the values of an attribute of the elements with this name in a query.
fn values_of(answer: &Element, name: &str, attribute: &str) -> Vec<String> {
    let query = answer.children().next().expect("a query");
    let found = query.children().filter(|child| child.name() == name);
    found.filter_map(|child| child.attr(attribute).map(str::to_owned)).collect()
}

/// XEP-0163 §6.1 announces it at the account, but many clients ask the domain.
#[test]
fn the_domain_tells_of_personal_eventing() {
    let PubsubScene { mut hamlet, .. } = PubsubScene::new();
    let own = hamlet.bare().to_owned();
    let (account, domain) = (disco(&mut hamlet, &own, INFO, ""), disco(&mut hamlet, "example.org", INFO, ""));
    assert_eq!(values_of(&domain, "identity", "type"), ["im", "pep"]);
    let of_pubsub = |answer: &Element| {
        let features = values_of(answer, "feature", "var");
        features.into_iter().filter(|feature| feature.starts_with(PUBSUB)).collect::<Vec<_>>()
    };
    assert_eq!(of_pubsub(&domain), of_pubsub(&account));
    assert!(of_pubsub(&domain).iter().any(|feature| feature.ends_with("#publish-options")));
}

/// XEP-0050 §3.2: a user who may run no command gets an empty list.
#[test]
fn nobody_is_told_that_there_is_no_list_of_commands() {
    let PubsubScene { mut hamlet, mut francisco, .. } = PubsubScene::new();
    let own = hamlet.bare().to_owned();
    for to in ["example.org", SERVICE, &own, "nobody@example.org"] {
        assert_eq!(values_of(&disco(&mut francisco, to, ITEMS, COMMANDS), "item", "node"), [""; 0], "{to}");
    }
    set(&mut hamlet, SERVICE, "<create node='n'/>");
    assert_eq!(values_of(&disco(&mut hamlet, SERVICE, ITEMS, COMMANDS), "item", "node"), [GET_PENDING]);
    assert_eq!(values_of(&disco(&mut francisco, SERVICE, ITEMS, COMMANDS), "item", "node"), [""; 0]);
    for (node, expected) in [(COMMANDS, "command-list"), (GET_PENDING, "command-node")] {
        assert_eq!(values_of(&disco(&mut francisco, SERVICE, INFO, node), "identity", "type"), [expected]);
    }
    assert_eq!(values_of(&disco(&mut francisco, SERVICE, ITEMS, GET_PENDING), "item", "node"), [""; 0]);
}

/// §16.4.4: the options are the groups in the owner's roster, and a group that was chosen is always
/// among them.
#[test]
fn a_configuration_has_the_types_of_the_standard() {
    let PubsubScene { mut hamlet, .. } = PubsubScene::new();
    for (contact, groups) in
        [("a@example.org", "<group>Friends</group><group>Work</group>"), ("b@example.org", "<group>Work</group>")]
    {
        let item = format!("<item jid='{contact}'>{groups}</item>");
        hamlet.ask(&format!("<iq type='set' id='r'><query xmlns='jabber:iq:roster'>{item}</query></iq>"));
        hamlet.all();
    }
    let field = |answer: &Element, var: &str| {
        let form = answer.children().flat_map(Element::children).flat_map(Element::children).next().expect("a form");
        let field = form.children().find(|field| field.attr("var") == Some(var)).expect("the field");
        let all = |name: &'static str| field.children().filter(move |child| child.name() == name);
        let options =
            all("option").filter_map(|option| option.child_text("value", "jabber:x:data")).collect::<Vec<_>>();
        let values = all("value").map(Element::text).collect::<Vec<_>>();
        (field.attr("type").unwrap_or_default().to_owned(), options, values)
    };
    let (groups, kind) = ("pubsub#roster_groups_allowed", "pubsub#node_type");
    for host in [SERVICE, ""] {
        let form = is_result(ask(&mut hamlet, host, "get", OWNER, "<default/>"));
        let list = |options: &[&str], values: &[&str]| {
            let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
            ("list-multi".to_owned(), owned(options), owned(values))
        };
        assert_eq!(field(&form, groups), list(&["Friends", "Work"], &[]), "{host}");
        assert_eq!(field(&form, kind), ("list-single".to_owned(), vec!["leaf".to_owned()], vec!["leaf".to_owned()]));
        let chosen =
            form_of("http://jabber.org/protocol/pubsub#node_config", &[("roster_groups_allowed", "Elsewhere")]);
        set(&mut hamlet, host, &format!("<create node='n'/><configure>{chosen}</configure>"));
        let form = is_result(ask(&mut hamlet, host, "get", OWNER, "<configure node='n'/>"));
        assert_eq!(field(&form, groups), list(&["Elsewhere", "Friends", "Work"], &["Elsewhere"]), "{host}");
        let collection = form_of("http://jabber.org/protocol/pubsub#node_config", &[("node_type", "collection")]);
        let collection = format!("<create node='c'/><configure>{collection}</configure>");
        assert_eq!(expect_refusal(&mut hamlet, host, "set", PUBSUB, &collection), "modify not-acceptable");
    }
}
