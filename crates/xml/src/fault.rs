//! Faults: the reasons why bytes from a peer can't be read as XMPP.

use std::fmt;

/// A fault of the peer. Each ends the stream (RFC 6120 §4.9.1.1), with the error of
/// [`condition`](Self::condition).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The bytes break the rules of XML 1.0, of Namespaces in XML 1.0 or of UTF-8.
    NotWellFormed,
    /// A comment, processing instruction, document type, or an entity other than the five (RFC 6120
    /// §11.1).
    RestrictedXml,
    /// The root of the stream is not in the streams namespace (RFC 6120 §4.8.1).
    InvalidNamespace,
    /// A prefix isn't bound, or the stream's root has the wrong one (RFC 6120 §4.8.5).
    BadNamespacePrefix,
    /// The XML declaration names an encoding other than UTF-8 (RFC 6120 §11.6).
    UnsupportedEncoding,
    /// Well-formed, but not what belongs here: the root of a stream has to be `stream` (RFC 6120
    /// §4.2).
    BadFormat,
    /// The stanza or stream header has more bytes than [`Limits::bytes`](crate::Limits::bytes).
    TooBig,
    /// Elements are nested deeper than [`Limits::depth`](crate::Limits::depth).
    TooDeep,
    /// An element has more attributes than [`Limits::attributes`](crate::Limits::attributes).
    TooManyAttributes,
    /// More prefixes are bound at a time than [`Limits::namespaces`](crate::Limits::namespaces).
    TooManyNamespaces,
    /// A name, namespace or character reference is longer than any legitimate one.
    NameTooLong,
    /// Written without prefixes, the namespaces of the stanza's elements would take several times
    /// the space of a whole stanza.
    NamespacesTooBig,
}

impl Fault {
    /// Returns the stream error condition to close the stream with (RFC 6120 §4.9.3).
    pub fn condition(self) -> &'static str {
        match self {
            Self::NotWellFormed => "not-well-formed",
            Self::RestrictedXml => "restricted-xml",
            Self::InvalidNamespace => "invalid-namespace",
            Self::BadNamespacePrefix => "bad-namespace-prefix",
            Self::UnsupportedEncoding => "unsupported-encoding",
            Self::BadFormat => "bad-format",
            Self::TooBig
            | Self::TooDeep
            | Self::TooManyAttributes
            | Self::TooManyNamespaces
            | Self::NameTooLong
            | Self::NamespacesTooBig => "policy-violation",
        }
    }

    /// Returns a sentence for the `<text/>` of the stream error and for the log.
    pub fn text(self) -> &'static str {
        match self {
            Self::NotWellFormed => "The XML is not well-formed.",
            Self::RestrictedXml => "Comments, processing instructions, DTDs and custom entities are not allowed.",
            Self::InvalidNamespace => "The stream is not in the streams namespace.",
            Self::BadNamespacePrefix => "A namespace prefix is not declared.",
            Self::UnsupportedEncoding => "The encoding has to be UTF-8.",
            Self::BadFormat => "This is not what belongs here.",
            Self::TooBig => "The stanza is too big.",
            Self::TooDeep => "Elements are nested too deeply.",
            Self::TooManyAttributes => "An element has too many attributes.",
            Self::TooManyNamespaces => "Too many namespace prefixes are declared.",
            Self::NameTooLong => "A name is too long.",
            Self::NamespacesTooBig => "Long namespaces are used too often.",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Fault {}
