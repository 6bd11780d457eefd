//! Channel bindings, which tie an authentication to the TLS connection below it (RFC 5056).

/// A channel-binding type by its registered name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BindingType {
    /// `tls-exporter` (RFC 9266): a value that only the two ends of this very connection can
    /// compute. TLS 1.3 only.
    TlsExporter,
    /// `tls-server-end-point` (RFC 5929 §4): the hash of the server's certificate. Weaker, but it
    /// survives a TLS proxy, and XEP-0440 makes it mandatory for servers.
    TlsServerEndPoint,
}

impl BindingType {
    /// Both types, the stronger first.
    pub const ALL: [BindingType; 2] = [BindingType::TlsExporter, BindingType::TlsServerEndPoint];

    /// Returns the name in the IANA registry, as written in SCRAM's gs2 header and in XEP-0440.
    pub fn name(self) -> &'static str {
        match self {
            BindingType::TlsExporter => "tls-exporter",
            BindingType::TlsServerEndPoint => "tls-server-end-point",
        }
    }

    /// Returns the type of that name, if it is one of ours.
    pub fn from_name(name: &str) -> Option<BindingType> {
        BindingType::ALL.into_iter().find(|binding| binding.name() == name)
    }
}

/// The channel-binding values of one connection; empty on a connection without TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChannelBindings {
    /// Value for `tls-exporter`.
    pub exporter: Option<[u8; 32]>,
    /// Value for `tls-server-end-point`: the certificate's hash.
    pub server_end_point: Option<Vec<u8>>,
}

impl ChannelBindings {
    /// Returns the value for one type, if the connection has it.
    pub fn value(&self, binding: BindingType) -> Option<&[u8]> {
        match binding {
            BindingType::TlsExporter => self.exporter.as_ref().map(|value| &value[..]),
            BindingType::TlsServerEndPoint => self.server_end_point.as_deref(),
        }
    }

    /// Returns the types that this connection supports, the stronger first: the list to announce by
    /// XEP-0440.
    pub fn types(&self) -> impl Iterator<Item = BindingType> + '_ {
        BindingType::ALL.into_iter().filter(|binding| self.value(*binding).is_some())
    }

    /// Returns whether there is nothing to bind to.
    pub fn is_empty(&self) -> bool {
        self.types().next().is_none()
    }
}
