//! Lists the implemented standards, from what the modules declare: as a readable page, and as a
//! description of the project for programs (DOAP, XEP-0453).

use std::fmt::Write as _;

use crate::table::{Shared, table};

/// Returns the Markdown page with one line per standard and module, sorted by standard.
pub fn xep_table() -> String {
    let modules = table(&Shared::default());
    let mut lines: Vec<_> = modules
        .iter()
        .flat_map(|module| module.standards().iter().map(move |standard| (*standard, module)))
        .map(|((standard, version), module)| {
            let on = if module.on_by_default() { "on" } else { "off" };
            let left_out = module.left_out().iter().find(|(of, _)| *of == standard).map_or("", |(_, what)| what);
            format!(
                "| {} | {version} | `{}` | {on} | {} | {left_out} |\n",
                link(standard),
                module.name(),
                module.summary()
            )
        })
        .collect();
    lines.sort_unstable();
    let streams =
        OF_STREAMS.iter().map(|(standard, version, what)| format!("| {} | {version} | {what} |\n", link(standard)));
    format!("{HEAD}{}{STREAMS_HEAD}{}", lines.concat(), streams.collect::<String>())
}

/// Returns the description of the project (XEP-0453): each XEP once, with the parts that all
/// modules leave out.
pub fn doap() -> String {
    let mut xeps: Vec<Supported> = Vec::new();
    for (standard, version, _) in OF_STREAMS {
        let left_out = LEFT_OUT_OF_STREAMS.iter().find(|(of, _)| *of == standard).map(|(_, what)| *what);
        add(&mut xeps, standard, version, left_out);
    }
    for module in table(&Shared::default()) {
        for (standard, version) in module.standards() {
            let left_out = module.left_out().iter().find(|(of, _)| of == standard).map(|(_, what)| *what);
            add(&mut xeps, standard, version, left_out);
        }
    }
    xeps.sort_unstable();
    let mut text = DOAP_HEAD.to_owned();
    for Supported { number, version, left_out } in xeps {
        let status = if left_out.is_empty() { "complete" } else { "partial" };
        // Writing to a string can't fail.
        let _ = write!(
            text,
            "\n    <implements>\n      <xmpp:SupportedXep>\n        \
             <xmpp:xep rdf:resource='https://xmpp.org/extensions/xep-{number}.html'/>\n        \
             <xmpp:status>{status}</xmpp:status>\n        <xmpp:version>{version}</xmpp:version>\n"
        );
        if !left_out.is_empty() {
            let note = left_out.join("; ").replace('`', "").replace('&', "&amp;").replace('<', "&lt;");
            let _ = writeln!(text, "        <xmpp:note xml:lang='en'>Left out: {note}.</xmpp:note>");
        }
        text.push_str("      </xmpp:SupportedXep>\n    </implements>\n");
    }
    text + "  </Project>\n</rdf:RDF>\n"
}

/// A XEP, with the parts that are left out.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Supported {
    number: &'static str,
    version: &'static str,
    left_out: Vec<&'static str>,
}

/// Adds a standard to the description, unless it isn't a XEP.
fn add(xeps: &mut Vec<Supported>, standard: &'static str, version: &'static str, left_out: Option<&'static str>) {
    let Some(number) = standard.strip_prefix("XEP-") else { return };
    match xeps.iter_mut().find(|known| known.number == number) {
        Some(known) => known.left_out.extend(left_out),
        None => xeps.push(Supported { number, version, left_out: left_out.into_iter().collect() }),
    }
}

/// Returns a standard with a link to its text.
fn link(standard: &str) -> String {
    match standard.strip_prefix("XEP-") {
        Some(number) => format!("[{standard}](https://xmpp.org/extensions/xep-{number}.html)"),
        None => standard.to_owned(),
    }
}

/// The standards that streams and the web front implement without a module.
const OF_STREAMS: [(&str, &str, &str); 18] = [
    ("XEP-0004", "2.13.2", "data forms, wherever another standard uses them"),
    ("XEP-0114", "1.6.1", "components: separate programs, such as bridges to other networks"),
    ("XEP-0124", "1.11.2", "BOSH: streams over HTTP"),
    ("XEP-0156", "1.4.0", "how browsers find WebSocket and BOSH"),
    ("XEP-0175", "1.2", "domains that let everybody in, with accounts for one session"),
    ("XEP-0178", "1.2", "other servers authenticate by certificate, with SASL EXTERNAL"),
    ("XEP-0185", "1.0", "dialback keys are computed, and needn't be stored"),
    ("XEP-0206", "1.4", "XMPP over BOSH"),
    ("XEP-0220", "1.1.1", "dialback: other servers are verified through DNS, if the operator allows that"),
    ("XEP-0227", "1.1", "accounts exported and imported"),
    ("XEP-0237", "1.3", "versions of rosters"),
    ("XEP-0288", "1.0.1", "both directions on one stream with another server"),
    ("XEP-0355", "0.5.0", "components that reply in the place of this server"),
    ("XEP-0356", "0.4.1", "components that act in the name of accounts"),
    ("XEP-0368", "1.1.0", "TLS from the first byte, and by ALPN"),
    ("XEP-0440", "1.0.0", "the channel bindings that the server supports are announced"),
    ("XEP-0474", "0.5.0", "an attacker on the way can't remove mechanisms unnoticed"),
    ("XEP-0478", "0.2.0", "limits of streams are announced and enforced"),
];

/// The parts that are left out of these.
const LEFT_OUT_OF_STREAMS: [(&str, &str); 0] = [];

const HEAD: &str = "\
# Standards that modules implement

This page is made from the module table, and so is [rookery.doap](rookery.doap); `UPDATE_DOC=1 cargo test --workspace up_to_date` writes both.
Omissions are listed as far as they concern servers.

| standard | version | module | by default | purpose | left out |
| --- | --- | --- | --- | --- | --- |
";

const STREAMS_HEAD: &str = "
# Standards of streams

No module, and always there, in addition to RFC 6120, 6121, 7395 and 7622.

| standard | version | what |
| --- | --- | --- |
";

const DOAP_HEAD: &str = "\
<?xml version='1.0' encoding='UTF-8'?>
<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'
         xmlns='http://usefulinc.com/ns/doap#'
         xmlns:xmpp='https://linkmauve.fr/ns/xmpp-doap#'>
  <Project>
    <name>Rookery</name>
    <shortdesc xml:lang='en'>A messaging server in one binary: a message with many recipients is built once</shortdesc>
    <programming-language>Rust</programming-language>
    <os>Linux</os>
    <category rdf:resource='https://linkmauve.fr/ns/xmpp-doap#category-server'/>

    <implements rdf:resource='https://xmpp.org/rfcs/rfc6120.html'/>
    <implements rdf:resource='https://xmpp.org/rfcs/rfc6121.html'/>
    <implements rdf:resource='https://xmpp.org/rfcs/rfc7395.html'/>
    <implements rdf:resource='https://xmpp.org/rfcs/rfc7622.html'/>
";

#[cfg(test)]
mod tests {
    use rookery_xml::{ns, slow};

    use super::*;

    const DOC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../doc/");

    #[test]
    fn the_pages_are_up_to_date() {
        for (name, text) in [("xeps.md", xep_table()), ("rookery.doap", doap())] {
            let page = format!("{DOC}{name}");
            if std::env::var_os("UPDATE_DOC").is_some() {
                std::fs::write(&page, &text).unwrap();
            }
            let found = std::fs::read_to_string(&page).unwrap_or_default();
            assert_eq!(found, text, "run the tests once with UPDATE_DOC=1");
        }
    }

    #[test]
    fn modules_describe_themselves() {
        let modules = table(&Shared::default());
        for module in &modules {
            assert!(!module.summary().is_empty() && !module.standards().is_empty(), "{}", module.name());
            assert_eq!(modules.iter().filter(|other| other.name() == module.name()).count(), 1, "{}", module.name());
            for (of, what) in module.left_out() {
                assert!(module.standards().iter().any(|(standard, _)| standard == of), "{}: {of}", module.name());
                assert!(!what.is_empty() && !what.contains('|') && !what.ends_with('.'), "{}: {what}", module.name());
            }
            for spec in module.options() {
                assert!(!spec.doc.is_empty(), "{}.{}", module.name(), spec.key);
                assert_eq!((spec.check)(&(spec.default)()), Ok(()), "{}.{}", module.name(), spec.key);
            }
        }
    }

    #[test]
    fn the_description_is_xml() {
        let text = doap();
        let xml = text.split_once("?>\n").expect("a declaration").1;
        let canonical = slow::canonical(xml.trim_end().as_bytes(), ns::CLIENT, &[]).expect("XML");
        let implemented = String::from_utf8(canonical).expect("UTF-8").matches("SupportedXep").count();
        assert!(implemented > 60, "{implemented}");
    }
}
