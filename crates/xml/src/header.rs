//! The header of a stream (RFC 6120 §4.2 and §4.7), of either side.

use crate::fault::Fault;
use crate::lex::{self, QName, Stop};
use crate::limits::{Limits, MAX_NAMESPACE};
use crate::ns;
use crate::unescape;

/// The root element of a stream. Namespaces are as declared; the caller checks whether `default_ns`
/// is the one that the port expects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The prefix of the root's name, nearly always `stream`. `None` if the streams namespace is
    /// the default one, in which case every stanza names its own (RFC 6120 §4.8.5).
    pub prefix: Option<String>,
    /// RFC 6120 §4.7.2
    pub to: Option<String>,
    /// RFC 6120 §4.7.1
    pub from: Option<String>,
    /// RFC 6120 §4.7.3
    pub id: Option<String>,
    /// RFC 6120 §4.7.5
    pub version: Option<String>,
    /// RFC 6120 §4.7.4
    pub lang: Option<String>,
    /// The content namespace (RFC 6120 §4.8.2), empty if none is declared.
    pub default_ns: String,
    /// The other declarations, prefix first.
    pub prefixes: Vec<(String, String)>,
}

/// Reads the header at the start of `buf`, with an optional XML declaration and white space before
/// it. Returns the number of bytes that were read, or `None` if it isn't complete.
pub fn parse(buf: &[u8], limits: &Limits) -> Result<Option<(usize, Header)>, Fault> {
    let window = &buf[..buf.len().min(limits.bytes)];
    match read(window, limits) {
        Ok(found) => Ok(Some(found)),
        Err(Stop::Partial) if window.len() < buf.len() => Err(Fault::TooBig),
        Err(Stop::Partial) => Ok(None),
        Err(Stop::Fault(fault)) => Err(fault),
    }
}

fn read(buf: &[u8], limits: &Limits) -> Result<(usize, Header), Stop> {
    let start = lex::space(buf, declaration(buf)?)?;
    let name = match buf.get(start..).unwrap_or_default() {
        [b'<', b'?' | b'!', ..] => return Err(Fault::RestrictedXml.into()),
        [b'<', ..] => lex::qname(buf, start + 1)?,
        _ => return Err(Fault::NotWellFormed.into()),
    };
    let mut attributes: Vec<(QName, String)> = Vec::new();
    let mut at = name.end;
    loop {
        let next = lex::space(buf, at)?;
        match buf[next] {
            b'>' => return Ok((next + 1, header(buf, name, attributes)?)),
            b'/' => {
                // A stream that ends where it starts.
                let closed = buf.get(next + 1).ok_or(Stop::Partial)? == &b'>';
                return Err(if closed { Fault::BadFormat } else { Fault::NotWellFormed }.into());
            }
            _ if next == at => return Err(Fault::NotWellFormed.into()),
            _ => {}
        }
        let (attribute, value, end) = attribute(buf, next)?;
        if attributes.iter().any(|(other, _)| name_bytes(buf, *other) == name_bytes(buf, attribute)) {
            return Err(Fault::NotWellFormed.into());
        }
        if attributes.len() >= limits.attributes {
            return Err(Fault::TooManyAttributes.into());
        }
        attributes.push((attribute, value));
        at = end;
    }
}

/// Reads an attribute and returns its name, its text and its end.
pub(crate) fn attribute(buf: &[u8], at: usize) -> Result<(QName, String, usize), Stop> {
    let name = lex::qname(buf, at)?;
    let quote = lex::equals_quote(buf, name)?;
    let mut end = quote + 1;
    lex::value(buf, &mut end, buf[quote])?;
    let value = &buf[quote + 1..end];
    if value.len() > MAX_NAMESPACE && name_bytes(buf, name).starts_with(b"xmlns") {
        return Err(Fault::NameTooLong.into());
    }
    Ok((name, unescape::value(value).into_owned(), end + 1))
}

/// Assigns the attributes and checks the namespaces.
fn header(buf: &[u8], name: QName, attributes: Vec<(QName, String)>) -> Result<Header, Fault> {
    let mut header = Header::default();
    let root_prefix = text(prefix(buf, name));
    let mut foreign = Vec::new();
    for (attribute, value) in attributes {
        match name_bytes(buf, attribute) {
            b"to" => header.to = Some(value),
            b"from" => header.from = Some(value),
            b"id" => header.id = Some(value),
            b"version" => header.version = Some(value),
            b"xml:lang" => header.lang = Some(value),
            b"xmlns" if value == ns::XML || value == ns::XMLNS => return Err(Fault::NotWellFormed),
            b"xmlns" => header.default_ns = value,
            _ => match prefix(buf, attribute) {
                b"xmlns" => bind(&mut header, text(&buf[attribute.local..attribute.end]), value)?,
                b"" | b"xml" => {}
                _ => foreign.push(attribute),
            },
        }
    }
    check_attributes(buf, &header, &foreign)?;
    let bound = match &*root_prefix {
        "" => Some(header.default_ns.as_str()),
        prefix => namespace_of(&header, prefix),
    };
    match bound {
        None => return Err(Fault::BadNamespacePrefix),
        Some(ns::STREAMS) => {}
        Some(_) => return Err(Fault::InvalidNamespace),
    }
    if buf[name.local..name.end] != *b"stream" {
        return Err(Fault::BadFormat);
    }
    header.prefixes.retain(|(prefix, _)| *prefix != root_prefix && prefix != "xml");
    header.prefix = (!root_prefix.is_empty()).then_some(root_prefix);
    Ok(header)
}

/// Checks the rules for binding a prefix to a namespace (Namespaces in XML §3 and §5).
fn bind(header: &mut Header, prefix: String, uri: String) -> Result<(), Fault> {
    if uri.is_empty() || prefix == "xmlns" || (prefix == "xml") != (uri == ns::XML) || uri == ns::XMLNS {
        return Err(Fault::NotWellFormed);
    }
    header.prefixes.push((prefix, uri));
    Ok(())
}

/// Checks that no two attributes are the same (Namespaces in XML §6.3), and that each prefix is
/// declared.
fn check_attributes(buf: &[u8], header: &Header, foreign: &[QName]) -> Result<(), Fault> {
    let mut seen = Vec::with_capacity(foreign.len());
    for name in foreign {
        let uri = namespace_of(header, &text(prefix(buf, *name))).ok_or(Fault::BadNamespacePrefix)?;
        let expanded = (uri, &buf[name.local..name.end]);
        if seen.contains(&expanded) {
            return Err(Fault::NotWellFormed);
        }
        seen.push(expanded);
    }
    Ok(())
}

fn namespace_of<'h>(header: &'h Header, prefix: &str) -> Option<&'h str> {
    header.prefixes.iter().find(|(bound, _)| bound == prefix).map(|(_, uri)| uri.as_str())
}

/// Reads the XML declaration (XML §2.8), if there is one, and returns its end.
pub(crate) fn declaration(buf: &[u8]) -> Result<usize, Stop> {
    if !buf.starts_with(DECLARATION) {
        return if DECLARATION.starts_with(buf) { Err(Stop::Partial) } else { Ok(0) };
    }
    let mut at = DECLARATION.len();
    if !lex::is_space(*buf.get(at).ok_or(Stop::Partial)?) {
        return Err(Fault::RestrictedXml.into());
    }
    // The parts come in this order, the first one always.
    let mut expected = PARTS.iter();
    let mut has_version = false;
    loop {
        let next = lex::space(buf, at)?;
        match buf.get(next..).unwrap_or_default() {
            [b'?'] => return Err(Stop::Partial),
            [b'?', b'>', ..] if has_version => return Ok(next + 2),
            _ if next == at => return Err(Fault::NotWellFormed.into()),
            _ => {}
        }
        let (name, value, end) = attribute(buf, next)?;
        if !expected.any(|part| *part == name_bytes(buf, name)) {
            return Err(Fault::NotWellFormed.into());
        }
        match name_bytes(buf, name) {
            b"encoding" if !value.eq_ignore_ascii_case("utf-8") => return Err(Fault::UnsupportedEncoding.into()),
            b"version" if value == "1.0" => has_version = true,
            b"encoding" | b"standalone" if has_version => {}
            _ => return Err(Fault::NotWellFormed.into()),
        }
        at = end;
    }
}

pub(crate) fn name_bytes(buf: &[u8], name: QName) -> &[u8] {
    &buf[name.start..name.end]
}

fn prefix(buf: &[u8], name: QName) -> &[u8] {
    &buf[name.start..name.local.saturating_sub(1).max(name.start)]
}

fn text(raw: &[u8]) -> String {
    String::from_utf8_lossy(raw).into_owned()
}

const DECLARATION: &[u8] = b"<?xml";
/// The parts of an XML declaration, in the order that it must have.
const PARTS: [&[u8]; 3] = [b"version", b"encoding", b"standalone"];

#[cfg(test)]
mod tests;
