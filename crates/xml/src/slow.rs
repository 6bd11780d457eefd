//! Stanzas of rare form, parsed by a library and written again.
//!
//! A peer may declare prefixes in its stream header and use them in stanzas (RFC 6120 §4.8.5). Such
//! a stanza means nothing to its recipients, so it is rewritten with its own declarations. Hardly
//! any client does this, so speed doesn't matter.

use std::collections::BTreeSet;
use std::sync::Arc;

use rxml::error::EndOrError;
use rxml::{AttrMap, Event, Options, Parse, Parser, WithOptions};

use crate::element::{Attr, Element};
use crate::escape::escape_attr;
use crate::fault::Fault;
use crate::limits::{Limits, MAX_DEPTH, MAX_NAMESPACE};
use crate::ns;
use crate::writer::Writer;

/// Rewrites a stanza into one that depends on nothing but the stream's content namespace.
///
/// `default_ns` and `prefixes` are those of the stream header that the stanza came after. The
/// result has no namespace at its root if that is a content namespace, like everything that the
/// [`Writer`] makes. It has to be scanned like any other stanza, because limits don't apply here
/// beyond the depth.
pub fn canonical(bytes: &[u8], default_ns: &str, prefixes: &[(String, String)]) -> Result<Vec<u8>, Fault> {
    let mut document = format!("<s xmlns='{}'", escape_attr(default_ns)).into_bytes();
    for (prefix, uri) in prefixes {
        document.extend_from_slice(format!(" xmlns:{prefix}='{}'", escape_attr(uri)).as_bytes());
    }
    document.push(b'>');
    document.extend_from_slice(bytes);
    document.extend_from_slice(b"</s>");
    // An element that uses a prefix of the header has to name its namespace, so a short stanza may
    // become a long one.
    let limits = Limits { bytes: bytes.len().max(Limits::AFTER_LOGIN.bytes), ..Limits::AFTER_LOGIN };
    let stanza = only_child(&document, Interned { most: limits.spelled_out(), ..Interned::default() })?;
    Ok(Writer::write(&stanza).into_bytes())
}

/// The namespaces of a document, each of which is in memory once.
#[derive(Default)]
struct Interned {
    known: BTreeSet<Arc<str>>,
    /// The bytes that they take where each element and attribute names its own, and the most that
    /// these may be.
    spelled: usize,
    most: usize,
}

impl Interned {
    fn of(&mut self, ns: &str) -> Result<Arc<str>, Fault> {
        self.spelled += ns.len();
        if ns.len() > MAX_NAMESPACE {
            return Err(Fault::NameTooLong);
        }
        if self.spelled > self.most {
            return Err(Fault::NamespacesTooBig);
        }
        if let Some(known) = self.known.get(ns) {
            return Ok(known.clone());
        }
        let new = Arc::<str>::from(ns);
        self.known.insert(new.clone());
        Ok(new)
    }

    fn element(&mut self, (ns, name): (&str, &str), attrs: AttrMap) -> Result<Element, Fault> {
        let mut element = Element::new(name, self.of(ns)?);
        for ((ns, name), value) in attrs {
            let prefix = if ns == ns::XML { "xml:" } else { "" };
            element.push_attr(Attr { name: format!("{prefix}{name}"), ns: self.of(&ns)?, value });
        }
        Ok(element)
    }
}

/// Parses a document whose root holds one element and nothing else.
fn only_child(document: &[u8], mut names: Interned) -> Result<Element, Fault> {
    let mut options = Options::default();
    options.max_token_length = options.max_token_length.max(document.len());
    let mut parser = Parser::with_options(options);
    let mut rest = document;
    let mut open: Vec<Element> = Vec::new();
    let mut children = Vec::new();
    let mut is_root = true;
    while let Some(event) = parser.parse(&mut rest, true).map_err(fault)? {
        match event {
            Event::StartElement(..) if is_root => is_root = false,
            Event::StartElement(_, (ns, name), attrs) => {
                if open.len() == MAX_DEPTH {
                    return Err(Fault::TooDeep);
                }
                open.push(names.element((&ns, &name), attrs)?);
            }
            Event::EndElement(_) => match (open.pop(), open.last_mut()) {
                (Some(element), Some(parent)) => parent.push_child(element),
                (Some(element), None) => children.push(element),
                (None, _) => {}
            },
            Event::Text(_, text) => match open.last_mut() {
                Some(element) => element.push_text(&text),
                None => return Err(Fault::NotWellFormed),
            },
            Event::XmlDeclaration(..) => {}
        }
    }
    match children.pop() {
        Some(stanza) if children.is_empty() => Ok(stanza),
        _ => Err(Fault::NotWellFormed),
    }
}

fn fault(error: EndOrError) -> Fault {
    match error {
        EndOrError::Error(rxml::Error::UndeclaredNamespacePrefix(_)) => Fault::BadNamespacePrefix,
        EndOrError::Error(rxml::Error::RestrictedXml(_) | rxml::Error::UndeclaredEntity) => Fault::RestrictedXml,
        _ => Fault::NotWellFormed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, Stanza};

    fn rewrite(stanza: &str) -> Result<String, Fault> {
        let prefixes = [("c".to_owned(), ns::CLIENT.to_owned()), ("d".to_owned(), "urn:d".to_owned())];
        canonical(stanza.as_bytes(), ns::CLIENT, &prefixes).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn prefixes_of_the_header_become_declarations() {
        let bytes = rewrite("<c:message to='a'><c:body>x</c:body><d:e d:f='1'>&amp;</d:e></c:message>").unwrap();
        let stanza = Stanza::parse(bytes.as_bytes(), &Limits::AFTER_LOGIN).unwrap();
        assert!(bytes.starts_with("<message to='a'><body>x</body>"), "{bytes}");
        assert!(stanza.has_body());
        let child = stanza.child("e", "urn:d").unwrap().element();
        assert_eq!((child.text().as_str(), &*child.attrs()[0].ns), ("&", "urn:d"));
    }

    #[test]
    fn what_stays_unknown_or_broken_is_refused() {
        assert_eq!(rewrite("<x:message/>"), Err(Fault::BadNamespacePrefix));
        assert_eq!(rewrite("<d:message>"), Err(Fault::NotWellFormed));
        assert_eq!(rewrite("<a/><b/>"), Err(Fault::NotWellFormed));
        assert_eq!(rewrite("</s><s>"), Err(Fault::NotWellFormed));
        assert_eq!(rewrite("<a/>x"), Err(Fault::NotWellFormed));
        assert_eq!(rewrite("<d:a><!-- --></d:a>"), Err(Fault::RestrictedXml));
        assert_eq!(rewrite(&("<d:a>".repeat(33) + &"</d:a>".repeat(33))), Err(Fault::TooDeep));
    }
}
