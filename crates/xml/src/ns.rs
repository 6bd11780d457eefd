//! Namespaces under the title of the RFC or XEP that defines them.

/// RFC 6120 §4.8.2, content of a client's stream
pub const CLIENT: &str = "jabber:client";
/// RFC 6120 §4.8.2, content of a server's stream
pub const SERVER: &str = "jabber:server";
/// XEP-0114 Jabber Component Protocol, content of a component's stream
pub const COMPONENT_ACCEPT: &str = "jabber:component:accept";
/// RFC 6120 §4.8.1, the stream itself
pub const STREAMS: &str = "http://etherx.jabber.org/streams";
/// RFC 6120 §4.9.2
pub const STREAM_ERRORS: &str = "urn:ietf:params:xml:ns:xmpp-streams";
/// RFC 6120 §8.3.2
pub const STANZA_ERRORS: &str = "urn:ietf:params:xml:ns:xmpp-stanzas";
/// RFC 6120 §5
pub const STARTTLS: &str = "urn:ietf:params:xml:ns:xmpp-tls";
/// RFC 6120 §6
pub const SASL: &str = "urn:ietf:params:xml:ns:xmpp-sasl";
/// RFC 6120 §7
pub const BIND: &str = "urn:ietf:params:xml:ns:xmpp-bind";
/// RFC 3921 §3, kept as a no-op for old clients
pub const SESSION: &str = "urn:ietf:params:xml:ns:xmpp-session";
/// RFC 6121 §2
pub const ROSTER: &str = "jabber:iq:roster";
/// RFC 6121 §2.6
pub const ROSTER_VERSIONING: &str = "urn:xmpp:features:rosterver";
/// RFC 6121 §3.4
pub const PRE_APPROVAL: &str = "urn:xmpp:features:pre-approval";
/// RFC 7395 §3.3
pub const FRAMING: &str = "urn:ietf:params:xml:ns:xmpp-framing";
/// Namespaces in XML 1.0 §3, always bound to `xml`
pub const XML: &str = "http://www.w3.org/XML/1998/namespace";
/// Namespaces in XML 1.0 §3, always bound to `xmlns`
pub const XMLNS: &str = "http://www.w3.org/2000/xmlns/";

/// XEP-0004 Data Forms
pub const DATA_FORMS: &str = "jabber:x:data";
/// XEP-0012 Last Activity
pub const LAST_ACTIVITY: &str = "jabber:iq:last";
/// XEP-0016 Privacy Lists
pub const PRIVACY: &str = "jabber:iq:privacy";
/// XEP-0027 Current Jabber OpenPGP Usage, an encrypted message
pub const ENCRYPTED: &str = "jabber:x:encrypted";
/// XEP-0030 Service Discovery, information
pub const DISCO_INFO: &str = "http://jabber.org/protocol/disco#info";
/// XEP-0030 Service Discovery, items
pub const DISCO_ITEMS: &str = "http://jabber.org/protocol/disco#items";
/// XEP-0033 Extended Stanza Addressing
pub const ADDRESS: &str = "http://jabber.org/protocol/address";
/// XEP-0045 Multi-User Chat
pub const MUC: &str = "http://jabber.org/protocol/muc";
/// XEP-0045 Multi-User Chat, what occupants see
pub const MUC_USER: &str = "http://jabber.org/protocol/muc#user";
/// XEP-0045 Multi-User Chat, what admins do
pub const MUC_ADMIN: &str = "http://jabber.org/protocol/muc#admin";
/// XEP-0045 Multi-User Chat, what owners do
pub const MUC_OWNER: &str = "http://jabber.org/protocol/muc#owner";
/// XEP-0049 Private XML Storage
pub const PRIVATE: &str = "jabber:iq:private";
/// XEP-0050 Ad-Hoc Commands
pub const COMMANDS: &str = "http://jabber.org/protocol/commands";
/// XEP-0054 vcard-temp
pub const VCARD: &str = "vcard-temp";
/// XEP-0059 Result Set Management
pub const RSM: &str = "http://jabber.org/protocol/rsm";
/// XEP-0060 Publish-Subscribe
pub const PUBSUB: &str = "http://jabber.org/protocol/pubsub";
/// XEP-0060 Publish-Subscribe, errors
pub const PUBSUB_ERRORS: &str = "http://jabber.org/protocol/pubsub#errors";
/// XEP-0060 Publish-Subscribe, events
pub const PUBSUB_EVENT: &str = "http://jabber.org/protocol/pubsub#event";
/// XEP-0060 Publish-Subscribe, what owners do
pub const PUBSUB_OWNER: &str = "http://jabber.org/protocol/pubsub#owner";
/// XEP-0066 Out of Band Data
pub const OOB: &str = "jabber:x:oob";
/// XEP-0065 SOCKS5 Bytestreams
pub const BYTESTREAMS: &str = "http://jabber.org/protocol/bytestreams";
/// XEP-0077 In-Band Registration
pub const REGISTER: &str = "jabber:iq:register";
/// XEP-0390 Entity Capabilities 2.0
pub const CAPS_2: &str = "urn:xmpp:caps";
/// XEP-0279 Server IP Check
pub const SIC: &str = "urn:xmpp:sic:1";
/// XEP-0279 Server IP Check, its first version
pub const SIC_0: &str = "urn:xmpp:sic:0";
/// XEP-0215 External Service Discovery
pub const EXTERNAL_SERVICES: &str = "urn:xmpp:extdisco:2";
/// XEP-0445 Pre-Authenticated In-Band Registration, the token
pub const PREAUTH: &str = "urn:xmpp:pars:0";
/// XEP-0445 Pre-Authenticated In-Band Registration, stream feature
pub const TOKEN_REGISTRATION: &str = "urn:xmpp:ibr-token:0";
/// XEP-0077 In-Band Registration, stream feature
pub const REGISTER_FEATURE: &str = "http://jabber.org/features/iq-register";
/// XEP-0084 User Avatar, the image
pub const AVATAR_DATA: &str = "urn:xmpp:avatar:data";
/// XEP-0084 User Avatar, what the image is
pub const AVATAR_METADATA: &str = "urn:xmpp:avatar:metadata";
/// XEP-0085 Chat State Notifications
pub const CHAT_STATES: &str = "http://jabber.org/protocol/chatstates";
/// XEP-0092 Software Version
pub const VERSION: &str = "jabber:iq:version";
/// XEP-0115 Entity Capabilities
pub const CAPS: &str = "http://jabber.org/protocol/caps";
/// XEP-0122 Data Forms Validation
pub const DATA_VALIDATE: &str = "http://jabber.org/protocol/xdata-validate";
/// XEP-0124 BOSH
pub const HTTP_BIND: &str = "http://jabber.org/protocol/httpbind";
/// XEP-0206 XMPP Over BOSH, the attributes that it adds
pub const XBOSH: &str = "urn:xmpp:xbosh";
/// XEP-0138 Stream Compression
pub const COMPRESS: &str = "http://jabber.org/protocol/compress";
/// XEP-0153 vCard-Based Avatars
pub const VCARD_UPDATE: &str = "vcard-temp:x:update";
/// XEP-0160 Best Practices for Handling Offline Messages
pub const OFFLINE: &str = "msgoffline";
/// XEP-0172 User Nickname
pub const NICK: &str = "http://jabber.org/protocol/nick";
/// XEP-0184 Message Delivery Receipts
pub const RECEIPTS: &str = "urn:xmpp:receipts";
/// XEP-0191 Blocking Command
pub const BLOCKING: &str = "urn:xmpp:blocking";
/// XEP-0191 Blocking Command, errors
pub const BLOCKING_ERRORS: &str = "urn:xmpp:blocking:errors";
/// XEP-0198 Stream Management
pub const SM: &str = "urn:xmpp:sm:3";
/// XEP-0199 XMPP Ping
pub const PING: &str = "urn:xmpp:ping";
/// XEP-0202 Entity Time
pub const TIME: &str = "urn:xmpp:time";
/// XEP-0203 Delayed Delivery
pub const DELAY: &str = "urn:xmpp:delay";
/// XEP-0220 Server Dialback
pub const DIALBACK: &str = "jabber:server:dialback";
/// XEP-0220 Server Dialback, stream feature
pub const DIALBACK_FEATURE: &str = "urn:xmpp:features:dialback";
/// XEP-0249 Direct MUC Invitations
pub const CONFERENCE: &str = "jabber:x:conference";
/// XEP-0280 Message Carbons
pub const CARBONS: &str = "urn:xmpp:carbons:2";
/// XEP-0297 Stanza Forwarding
pub const FORWARD: &str = "urn:xmpp:forward:0";
/// XEP-0300 Use of Cryptographic Hash Functions
pub const HASHES: &str = "urn:xmpp:hashes:2";
/// XEP-0308 Last Message Correction
pub const CORRECT: &str = "urn:xmpp:message-correct:0";
/// XEP-0313 Message Archive Management
pub const MAM: &str = "urn:xmpp:mam:2";
/// XEP-0313 Message Archive Management, extended queries
pub const MAM_EXTENDED: &str = "urn:xmpp:mam:2#extended";
/// XEP-0333 Chat Markers
pub const MARKERS: &str = "urn:xmpp:chat-markers:0";
/// XEP-0334 Message Processing Hints
pub const HINTS: &str = "urn:xmpp:hints";
/// XEP-0352 Client State Indication
pub const CSI: &str = "urn:xmpp:csi:0";
/// XEP-0353 Jingle Message Initiation
pub const JINGLE_MESSAGE: &str = "urn:xmpp:jingle-message:0";
/// XEP-0357 Push Notifications
pub const PUSH: &str = "urn:xmpp:push:0";
/// XEP-0359 Unique and Stable Stanza IDs
pub const STANZA_ID: &str = "urn:xmpp:sid:0";
/// XEP-0363 HTTP File Upload
pub const HTTP_UPLOAD: &str = "urn:xmpp:http:upload:0";
/// XEP-0373 OpenPGP for XMPP
pub const OPENPGP: &str = "urn:xmpp:openpgp:0";
/// XEP-0384 OMEMO Encryption
pub const OMEMO: &str = "urn:xmpp:omemo:2";
/// XEP-0384 OMEMO Encryption before version 0.4, which most clients speak
pub const OMEMO_AXOLOTL: &str = "eu.siacs.conversations.axolotl";
/// XEP-0377 Blocking Command with Reports
pub const REPORTING: &str = "urn:xmpp:reporting:1";
/// XEP-0386 Bind 2
pub const BIND2: &str = "urn:xmpp:bind:0";
/// XEP-0388 Extensible SASL Profile
pub const SASL2: &str = "urn:xmpp:sasl:2";
/// XEP-0398 User Avatar to vCard-Based Avatars Conversion
pub const AVATAR_CONVERSION: &str = "urn:xmpp:pep-vcard-conversion:0";
/// XEP-0402 PEP Native Bookmarks
pub const BOOKMARKS: &str = "urn:xmpp:bookmarks:1";
/// XEP-0317 Hats
pub const HATS: &str = "urn:xmpp:hats:0";
/// XEP-0421 Occupant identifiers for semi-anonymous MUCs
pub const OCCUPANT_ID: &str = "urn:xmpp:occupant-id:0";
/// XEP-0425 Moderated Message Retraction
pub const MODERATE: &str = "urn:xmpp:message-moderate:1";
/// XEP-0410 MUC Self-Ping, optimisation by the server
pub const SELF_PING: &str = "http://jabber.org/protocol/muc#self-ping-optimization";
/// XEP-0424 Message Retraction
pub const RETRACT: &str = "urn:xmpp:message-retract:1";
/// XEP-0424 Message Retraction, tombstones (§5)
pub const RETRACT_TOMBSTONE: &str = "urn:xmpp:message-retract:1#tombstone";
/// XEP-0424 Message Retraction before version 0.4
pub const RETRACT_0: &str = "urn:xmpp:message-retract:0";
/// XEP-0431 Full Text Search in MAM
pub const FULLTEXT: &str = "urn:xmpp:fulltext:0";
/// XEP-0440 SASL Channel-Binding Type Capability
pub const CHANNEL_BINDING: &str = "urn:xmpp:sasl-cb:0";
/// XEP-0444 Message Reactions
pub const REACTIONS: &str = "urn:xmpp:reactions:0";
/// XEP-0447 Stateless file sharing
pub const FILE_SHARING: &str = "urn:xmpp:sfs:0";
/// XEP-0474 SASL SCRAM Downgrade Protection
pub const SCRAM_DOWNGRADE: &str = "urn:xmpp:ssdp:0";
/// XEP-0482 Call Invites
pub const CALL_INVITES: &str = "urn:xmpp:call-invites:0";
/// XEP-0484 Fast Authentication Streamlining Tokens
pub const FAST: &str = "urn:xmpp:fast:0";
/// XEP-0356 Privileged Entity
pub const PRIVILEGE: &str = "urn:xmpp:privilege:2";
/// XEP-0355 Namespace Delegation
pub const DELEGATION: &str = "urn:xmpp:delegation:2";

/// Returns whether this is the content namespace of a stream. A stanza is the same in each of them,
/// so one that doesn't name its namespace may travel from one kind of stream to the other (RFC 6120
/// §4.8.3).
pub fn is_content(ns: &str) -> bool {
    matches!(ns, CLIENT | SERVER | COMPONENT_ACCEPT)
}
