//! An element whose children are read one by one, like those of a stream, although all of it has
//! arrived: the `<body/>` of XEP-0124.
//!
//! Only its tags are read here; its content is for the [`Scanner`](crate::Scanner), which shows
//! each child as a separate stanza.

use crate::fault::Fault;
use crate::header::{attribute, declaration, name_bytes};
use crate::lex::{self, Stop};
use crate::limits::Limits;
use crate::ns;

/// The start tag of a document's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrapper {
    /// Its name as written, prefix included.
    pub written: String,
    /// Its local name.
    pub name: String,
    /// Its namespace; empty for none.
    pub ns: String,
    /// The namespace that its children are in unless they say otherwise; empty for none.
    pub default_ns: String,
    /// Its attributes: namespace (empty for none), local name, value.
    pub attributes: Vec<(String, String, String)>,
    /// The prefixes that it declares, with their namespaces.
    pub prefixes: Vec<(String, String)>,
    /// The place where its content begins.
    pub content: usize,
    /// True if it has none, because the tag ends with `/>`.
    pub is_empty: bool,
}

impl Wrapper {
    /// Reads the start of a document: an XML declaration if there is one, and the tag.
    ///
    /// # Errors
    /// The document isn't XML, isn't complete, or needs more than `limits` allow.
    pub fn read(document: &[u8], limits: &Limits) -> Result<Self, Fault> {
        let window = document.get(..limits.bytes).unwrap_or(document);
        tag(window, limits).map_err(|stop| match stop {
            Stop::Partial if window.len() < document.len() => Fault::TooBig,
            Stop::Partial => Fault::NotWellFormed,
            Stop::Fault(fault) => fault,
        })
    }

    /// Returns the value of an attribute in a namespace; an empty one for those without prefix.
    pub fn attr(&self, ns: &str, name: &str) -> Option<&str> {
        let mut all = self.attributes.iter();
        all.find(|(of, found, _)| of == ns && found == name).map(|(_, _, value)| value.as_str())
    }

    /// Returns whether `rest` is the end of the document: the end tag, and nothing but white space
    /// after it.
    pub fn ends_with(&self, rest: &[u8]) -> bool {
        let behind = rest.strip_prefix(b"</").and_then(|rest| rest.strip_prefix(self.written.as_bytes()));
        behind
            .and_then(|rest| rest.trim_ascii_start().strip_prefix(b">"))
            .is_some_and(|rest| rest.trim_ascii().is_empty())
    }
}

fn tag(buf: &[u8], limits: &Limits) -> Result<Wrapper, Stop> {
    let start = lex::space(buf, declaration(buf)?)?;
    let name = match buf.get(start..).unwrap_or_default() {
        [b'<', b'?' | b'!', ..] => return Err(Fault::RestrictedXml.into()),
        [b'<', ..] => lex::qname(buf, start + 1)?,
        _ => return Err(Fault::NotWellFormed.into()),
    };
    let mut found: Vec<(String, String)> = Vec::new();
    let mut at = name.end;
    let (content, is_empty) = loop {
        let next = lex::space(buf, at)?;
        match buf.get(next..).unwrap_or_default() {
            [b'>', ..] => break (next + 1, false),
            [b'/', b'>', ..] => break (next + 2, true),
            [b'/'] => return Err(Stop::Partial),
            [b'/', ..] => return Err(Fault::NotWellFormed.into()),
            _ if next == at => return Err(Fault::NotWellFormed.into()),
            _ => {}
        }
        let (attribute, value, end) = attribute(buf, next)?;
        let written = text(name_bytes(buf, attribute));
        if found.iter().any(|(other, _)| *other == written) {
            return Err(Fault::NotWellFormed.into());
        }
        if found.len() >= limits.attributes {
            return Err(Fault::TooManyAttributes.into());
        }
        found.push((written, value));
        at = end;
    };
    Ok(resolve(text(name_bytes(buf, name)), found, content, is_empty)?)
}

/// Resolves the namespaces of names (Namespaces in XML §5, §6).
fn resolve(written: String, found: Vec<(String, String)>, content: usize, is_empty: bool) -> Result<Wrapper, Fault> {
    let mut default_ns = String::new();
    let mut prefixes = Vec::new();
    let mut plain = Vec::with_capacity(found.len());
    for (name, value) in found {
        if name == "xmlns" {
            default_ns = value;
        } else if let Some(prefix) = name.strip_prefix("xmlns:") {
            let is_reserved = matches!(prefix, "xml" | "xmlns") || matches!(value.as_str(), ns::XML | ns::XMLNS);
            if value.is_empty() || is_reserved {
                return Err(Fault::NotWellFormed);
            }
            prefixes.push((prefix.to_owned(), value));
        } else {
            plain.push((name, value));
        }
    }
    let namespace = |prefix: &str| match prefix {
        "xml" => Ok(ns::XML.to_owned()),
        prefix => {
            let bound = prefixes.iter().find(|(bound, _)| bound == prefix);
            bound.map(|(_, uri)| uri.clone()).ok_or(Fault::BadNamespacePrefix)
        }
    };
    let (name, ns) = match written.split_once(':') {
        Some((prefix, local)) => (local.to_owned(), namespace(prefix)?),
        None => (written.clone(), default_ns.clone()),
    };
    let mut attributes: Vec<(String, String, String)> = Vec::with_capacity(plain.len());
    for (name, value) in plain {
        let (ns, local) = match name.split_once(':') {
            Some((prefix, local)) => (namespace(prefix)?, local.to_owned()),
            None => (String::new(), name),
        };
        if attributes.iter().any(|(of, other, _)| *of == ns && *other == local) {
            return Err(Fault::NotWellFormed);
        }
        attributes.push((ns, local, value));
    }
    Ok(Wrapper { written, name, ns, default_ns, attributes, prefixes, content, is_empty })
}

/// Returns a name as text: names have been checked to be UTF-8.
fn text(raw: &[u8]) -> String {
    String::from_utf8_lossy(raw).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(document: &str) -> Result<Wrapper, Fault> {
        Wrapper::read(document.as_bytes(), &Limits::AFTER_LOGIN)
    }

    #[test]
    fn names_get_their_namespaces() {
        let text = "<?xml version='1.0'?> <body rid='1' x:restart='true' xml:lang='de' xmlns='urn:b' xmlns:x=\"urn:x\" ><a/></body> ";
        let wrapper = read(text).unwrap();
        assert_eq!((wrapper.name.as_str(), wrapper.ns.as_str(), wrapper.is_empty), ("body", "urn:b", false));
        assert_eq!(wrapper.attr("", "rid"), Some("1"));
        assert_eq!(wrapper.attr("urn:x", "restart"), Some("true"));
        assert_eq!(wrapper.attr(ns::XML, "lang"), Some("de"));
        assert_eq!(wrapper.attr("", "restart"), None);
        assert!(text[wrapper.content..].starts_with("<a/>"));
        assert!(wrapper.ends_with(b"</body> \n") && wrapper.ends_with(b"</body >"));
        assert!(!wrapper.ends_with(b"</body>x") && !wrapper.ends_with(b"</bodies>") && !wrapper.ends_with(b""));
        let prefixed = read("<b:body xmlns:b='urn:b'/>").unwrap();
        assert_eq!((prefixed.ns.as_str(), prefixed.default_ns.as_str(), prefixed.is_empty), ("urn:b", "", true));
    }

    #[test]
    fn what_is_no_start_tag_is_refused() {
        for bad in [
            "",
            "<",
            "<body",
            "body",
            "<body rid='1' rid='2'/>",
            "<body x:y='1'/>",
            "<body a='<'/>",
            "<body/ >",
            "<x:body/>",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert_eq!(read("<!DOCTYPE a><body/>"), Err(Fault::RestrictedXml));
        assert_eq!(read("<b xmlns:p='u' xmlns:q='u' p:a='1' q:a='2'/>"), Err(Fault::NotWellFormed));
        let limits = Limits { bytes: 10, ..Limits::AFTER_LOGIN };
        assert_eq!(Wrapper::read(b"<body rid='1'/>", &limits), Err(Fault::TooBig));
    }
}
