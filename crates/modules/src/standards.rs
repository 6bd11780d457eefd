//! The list of what is implemented, made from what the modules say of themselves.

use crate::{Shared, table};

/// The Markdown page with one line per standard and module, sorted by standard.
pub fn xep_table() -> String {
    let modules = table(&Shared::default());
    let mut lines: Vec<_> = modules
        .iter()
        .flat_map(|module| module.standards().iter().map(move |standard| (*standard, module)))
        .map(|((standard, version), module)| {
            let on = if module.on_by_default() { "on" } else { "off" };
            format!("| {} | {version} | `{}` | {on} | {} |\n", link(standard), module.name(), module.summary())
        })
        .collect();
    lines.sort_unstable();
    format!("{HEAD}{}", lines.concat())
}

/// A standard with a link to its text.
fn link(standard: &str) -> String {
    match standard.strip_prefix("XEP-") {
        Some(number) => format!("[{standard}](https://xmpp.org/extensions/xep-{number}.html)"),
        None => standard.to_owned(),
    }
}

const HEAD: &str = "\
# Standards that modules implement

This page is made from the module table; `UPDATE_DOC=1 cargo test -p rookery-modules` writes it anew.
The core (RFC 6120, 6121, 7622) and what belongs to stream negotiation is no module and always there.

| standard | version | module | by default | what it is good for |
| --- | --- | --- | --- | --- |
";

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../doc/xeps.md");

    #[test]
    fn the_page_is_up_to_date() {
        if std::env::var_os("UPDATE_DOC").is_some() {
            std::fs::write(PAGE, xep_table()).unwrap();
        }
        let page = std::fs::read_to_string(PAGE).unwrap_or_default();
        assert_eq!(page, xep_table(), "run the tests once with UPDATE_DOC=1");
    }

    #[test]
    fn modules_describe_themselves() {
        let modules = table(&Shared::default());
        for module in &modules {
            assert!(!module.summary().is_empty() && !module.standards().is_empty(), "{}", module.name());
            assert_eq!(modules.iter().filter(|other| other.name() == module.name()).count(), 1, "{}", module.name());
            for spec in module.options() {
                assert!(!spec.doc.is_empty(), "{}.{}", module.name(), spec.key);
                assert_eq!((spec.check)(&(spec.default)()), Ok(()), "{}.{}", module.name(), spec.key);
            }
        }
    }
}
