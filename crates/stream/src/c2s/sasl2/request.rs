//! Requests that come along with an authentication (XEP-0388 §2.3).

use rookery_sasl::TokenMechanism;
use rookery_xml::{Element, ns};
use serde::{Deserialize, Serialize};

use super::super::resume::{self, Enable};
use super::fast::FastSlot;

/// The children of an `<authenticate/>` except for the SASL data. Unknown ones are ignored (§2.3).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Sasl2Request {
    /// The session to resume (XEP-0198 §9.2), if the client wants that: its id, and the number of
    /// stanzas that the client has handled. A request that can't be read is kept as such, so that
    /// it gets a reply.
    pub resume: Option<Option<(String, u32)>>,
    /// The resource to bind (XEP-0386), if the client wants one.
    pub bind: Option<Bind>,
    /// The identifier of the client's installation.
    pub client: Option<String>,
    /// The mechanism for which the client wants a token (XEP-0484 §3.2), if it wants one.
    pub token: Option<TokenMechanism>,
    /// True if the client wants to invalidate the token that the client logs in with (XEP-0484
    /// §3.6).
    pub invalidate: bool,
    /// The place of the token that the client has logged in with.
    pub used: Option<FastSlot>,
}

/// A `<bind/>` of XEP-0386.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Bind {
    /// The tag that the client wants in its resource.
    pub tag: Option<String>,
    /// The features to be enabled with it.
    pub features: Features,
}

/// The client's requests for its session, from the first moment on (XEP-0386 §3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Features {
    /// Stream management (XEP-0198 §9.1).
    pub enable: Option<Enable>,
    /// True if the client begins inactive (XEP-0352).
    pub inactive: bool,
    /// True if the client wants copies of the messages that other resources send and get
    /// (XEP-0280).
    pub carbons: bool,
}

impl Sasl2Request {
    pub fn read(authenticate: &Element) -> Self {
        let client = authenticate.child("user-agent", ns::SASL2).and_then(|agent| agent.attr("id"));
        let wanted = authenticate.child("request-token", ns::FAST).and_then(|request| request.attr("mechanism"));
        let fast = authenticate.child("fast", ns::FAST);
        let usable = |id: &&str| !id.is_empty() && id.len() <= MAX_CLIENT;
        Self {
            resume: authenticate.child("resume", ns::SM).map(resume::read_resume),
            bind: authenticate.child("bind", ns::BIND2).map(Bind::read),
            client: client.filter(usable).map(str::to_owned),
            token: wanted.and_then(TokenMechanism::from_name),
            invalidate: matches!(fast.and_then(|fast| fast.attr("invalidate")), Some("true" | "1")),
            used: None,
        }
    }
}

impl Bind {
    fn read(bind: &Element) -> Self {
        let tag = bind.child_text("tag", ns::BIND2);
        let enable = bind.child("enable", ns::SM);
        Self {
            tag: tag.filter(|tag| !tag.is_empty() && tag.len() <= MAX_TAG),
            features: Features {
                enable: enable.map(|enable| Enable::read(enable.attr("resume"), enable.attr("max"))),
                inactive: bind.child("inactive", ns::CSI).is_some(),
                carbons: bind.child("enable", ns::CARBONS).is_some(),
            },
        }
    }
}

/// Bytes of a tag; a longer one is left out of the resource.
const MAX_TAG: usize = 256;
/// Bytes of the identifier of an installation, which should be a UUID; a longer one is ignored.
const MAX_CLIENT: usize = 256;
