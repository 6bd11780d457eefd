//! XEP-0363: HTTP File Upload. A service `upload.DOMAIN` that gives users space for files.
//!
//! This module hands out upload slots, called slots here, and does the accounting; the bytes go
//! through the web front, which uses the same store.
//!
//! # Invariants
//!
//! * An address has a token of 400 random bits: a file can't be found without knowing its address.
//! * A slot counts against its owner's quota, in bytes and in number, from the moment it is handed
//!   out until it has expired or its file is removed.
//!
//! Left out: purposes (§4), whose retention can't be configured here, and headers for the upload,
//! which the address makes unnecessary.

use std::fmt::Write as _;

use rookery_base::date::timestamp;
use rookery_fanout::Packet;
use rookery_hub::failure::condition;
use rookery_hub::{Bound, Domain, Hooks, Iq, Module, Most, OptionSpec, Options, Per, Settings, Unit, Value, World};
use rookery_jid::JidRef;
use rookery_modkit::disco::{DiscoIdentity, Info, reply_items};
use rookery_modkit::form::{Field, Form};
use rookery_modkit::option;
use rookery_modkit::request::{is_get, to_service};
use rookery_sasl::token::new_token;
use rookery_store::{Reserved, Slot, SlotQuota, SlotStage, StoreError};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Element, ns};

/// The module that hands out upload slots.
#[derive(Debug)]
pub struct Upload;

impl Module for Upload {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "users can share files, which the server stores for a while"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0363", "1.2.0")]
    }

    fn left_out(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0363", "purposes (§4), headers for the upload")]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &OPTIONS
    }

    fn bounds(&self) -> &'static [Bound] {
        &BOUNDS
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.service(serve);
    }
}

/// The key below `[modules]`.
const NAME: &str = "upload";

const BOUNDS: [Bound; 5] = [
    Bound::on("one file", Per::Other("file"), Most::Option("max_bytes"), Unit::Bytes)
        .or("the request for a larger one gets <not-acceptable/>"),
    Bound::on("files that a user shares", Per::Account, Most::Option("quota_bytes"), Unit::Bytes)
        .or("the request for one more gets <resource-constraint/>, and when to try again")
        .kept_in(&["slots"]),
    Bound::on("files that a user shares", Per::Account, Most::Option("quota_files"), Unit::Number)
        .or("one more gets the same")
        .kept_in(&["slots"]),
    Bound::on("uploads that were requested and haven't begun", Per::Account, Most::Fixed(MOST_WAITING), Unit::Number)
        .or("one more gets the same; they expire after five minutes"),
    Bound::on("the time for which a file is kept", Per::Other("file"), Most::Option("keep_days"), Unit::Days)
        .or("it is removed"),
];

const OPTIONS: [OptionSpec; 7] = [
    OptionSpec {
        key: "host",
        default: || Value::Text("upload.@".to_owned()),
        doc: "the address of the service; @ stands for the domain",
        check: option::host,
    },
    OptionSpec {
        key: "name",
        default: || Value::Text("Files".to_owned()),
        doc: "its name in lists of services",
        check: option::any,
    },
    OptionSpec {
        key: "url",
        default: || Value::Text(String::new()),
        doc: "the address of the path /upload as seen from outside, such as \"https://@:5443/upload\"; @ stands for the domain. \"\" means the `public_host` of [web], or the first port of `web_tls`",
        check: address,
    },
    OptionSpec {
        key: "max_bytes",
        default: || Value::Number(100 << 20),
        doc: "bytes of one file",
        check: option::at_least_one,
    },
    OptionSpec {
        key: "quota_bytes",
        default: || Value::Number(1 << 30),
        doc: "bytes of all files of one user",
        check: option::any,
    },
    OptionSpec {
        key: "quota_files",
        default: || Value::Number(5000),
        doc: "files of one user, whatever their size",
        check: option::any,
    },
    OptionSpec {
        key: "keep_days",
        default: || Value::Number(30),
        doc: "days for which a file is kept",
        check: option::at_least_one,
    },
];

/// Returns the address below which the files of a domain's users are; `None` if the module is off.
/// Without an address in the options, it is the one at which browsers reach the web front; if that
/// has no TLS, a proxy in front of it is assumed.
pub fn base(settings: &Settings, domain: &Domain) -> Option<String> {
    let base = match domain.module(NAME)?.text("url") {
        "" => format!("{}/upload", settings.told.pages.as_deref().unwrap_or("https://@")),
        url => url.to_owned(),
    };
    Some(base.replace('@', &domain.name))
}

/// Accepts an address without a query, to which a path can be added, or an empty one.
fn address(value: &Value) -> Result<(), String> {
    let Value::Text(text) = value else { return Ok(()) };
    if text.is_empty() {
        return Ok(());
    }
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or_default();
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"?#'\"<>&\\".contains(&byte);
    if rest.is_empty() || !rest.bytes().all(plain) || rest.ends_with('/') {
        return Err(format!("{text:?} isn't an address such as \"https://@:5443/upload\""));
    }
    Ok(())
}

/// Dispatches a stanza for the service.
fn serve(world: &mut World, packet: &Packet, to: JidRef<'_>, domain: &Domain) {
    let Some((iq, options)) = to_service(world, packet, to, domain, NAME) else { return };
    let has_node = iq.payload.attr("node").is_some_and(|node| !node.is_empty());
    match iq.payload.ns() {
        ns::DISCO_INFO | ns::DISCO_ITEMS if has_node => world.reply_error(&iq, Condition::ItemNotFound),
        ns::DISCO_INFO if is_get(world, &iq, "query") => info(world, &iq, options),
        ns::DISCO_ITEMS if is_get(world, &iq, "query") => reply_items(world, &iq, &[]),
        ns::HTTP_UPLOAD if is_get(world, &iq, "request") => request(world, iq, options, domain),
        ns::DISCO_INFO | ns::DISCO_ITEMS | ns::HTTP_UPLOAD => {}
        _ => world.reply_error(&iq, Condition::ServiceUnavailable),
    }
}

/// Describes the service, with the largest size of a file in a form (§3).
fn info(world: &mut World, iq: &Iq, options: &Options) {
    let identity = DiscoIdentity { category: "store", type_: "file", name: Some(options.text("name")) };
    let most = Field::text_single("max-file-size").value(&options.number("max_bytes").to_string());
    let form = Form::new("result").hidden("FORM_TYPE", ns::HTTP_UPLOAD).field(most).element();
    let info = Info { identity, more: &[], features: FEATURES.to_vec(), forms: vec![form] };
    let mut reply = iq.result();
    info.write(&mut reply, None);
    world.reply(iq, reply);
}

/// Handles a request for an upload slot (§4) from a user of the domain.
fn request(world: &mut World, iq: Iq, options: &Options, domain: &Domain) {
    if iq.from.domain() != domain.name || iq.from.local().is_none() {
        return world.reply_error(&iq, Condition::Forbidden);
    }
    let size = iq.payload.attr("size").and_then(|size| size.parse::<u64>().ok()).filter(|&size| size > 0);
    let name = iq.payload.attr("filename").filter(|name| is_name(name));
    let content_type = iq.payload.attr("content-type");
    let (Some(size), Some(name)) = (size, name) else { return world.reply_error(&iq, Condition::BadRequest) };
    if content_type.is_some_and(|content_type| !is_content_type(content_type)) {
        return world.reply_error(&iq, Condition::BadRequest);
    }
    let most = options.number("max_bytes");
    if size > most {
        return world.reply_error(&iq, too_large(most));
    }
    let Ok(token) = new_token() else { return world.reply_error(&iq, Condition::InternalServerError) };
    let slot = Slot {
        token,
        owner: iq.from.to_bare(),
        name: name.to_owned(),
        size,
        content_type: content_type.map(str::to_owned),
        expires_ms: world.time() + BEGIN_MS,
        keep_ms: options.number("keep_days").saturating_mul(DAY_MS),
        stage: SlotStage::Reserved,
    };
    let base = base(world.settings(), domain).unwrap_or_default();
    let url = format!("{base}/{}/{}", slot.token, encode(&slot.name));
    let quota =
        SlotQuota { bytes: options.number("quota_bytes"), files: options.number("quota_files"), waiting: MOST_WAITING };
    let reserved = world.stores.slots.reserve(slot, quota);
    world.wait(reserved, move |world, reserved| match reserved {
        Ok(Reserved::Done) => {
            let mut reply = iq.result();
            reply.start_ns("slot", ns::HTTP_UPLOAD);
            reply.start("put").attr("url", &url).end();
            reply.start("get").attr("url", &url).end();
            world.reply(&iq, reply);
        }
        Ok(Reserved::Full { again_ms }) => world.reply_error(&iq, full(again_ms)),
        Err(StoreError::NoAccount) => world.reply_error(&iq, Condition::Forbidden),
        Err(error) => {
            world.store_failed("reserving a slot for a file", &iq.from, &error);
            world.reply_error(&iq, condition(&error));
        }
    });
}

/// Returns the error for a file that is too large, with the limit (§5).
fn too_large(most: u64) -> StanzaError {
    let size = Element::new("max-file-size", ns::HTTP_UPLOAD).with_text(most.to_string());
    StanzaError::new(Condition::NotAcceptable)
        .with_text(format!("The file is too large; the limit is {most} bytes."))
        .with_application(Element::new("file-too-large", ns::HTTP_UPLOAD).with_child(size))
}

/// Returns the error for a full quota (§5): there will be room when files have expired, unless this
/// one is larger than the whole quota.
fn full(again_ms: Option<u64>) -> StanzaError {
    let full =
        StanzaError::new(Condition::ResourceConstraint).with_text("Your files take up all the space that you have.");
    match again_ms {
        Some(again_ms) => {
            full.with_application(Element::new("retry", ns::HTTP_UPLOAD).with_attr("stamp", timestamp(again_ms)))
        }
        None => full,
    }
}

/// Returns whether a text is a name, not a path.
fn is_name(name: &str) -> bool {
    let odd = |letter: char| letter.is_control() || letter == '/' || letter == '\\';
    !name.is_empty() && name.len() <= NAME_BYTES && !name.contains(odd) && name != "." && name != ".."
}

/// Returns whether a text is valid in the header field: `type/subtype` with parameters (RFC 9110
/// §8.3.1).
fn is_content_type(text: &str) -> bool {
    let printable = |byte: u8| (b' '..=b'~').contains(&byte);
    text.len() <= CONTENT_TYPE_BYTES && text.contains('/') && text.bytes().all(printable)
}

/// Returns a name as a segment of a path (RFC 3986 §3.3).
pub fn encode(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a string can't fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// The features, sorted.
const FEATURES: [&str; 3] = [ns::DISCO_INFO, ns::DISCO_ITEMS, ns::HTTP_UPLOAD];
/// The most upload slots of one account whose upload hasn't begun: enough for a large album.
const MOST_WAITING: u64 = 200;
/// Milliseconds for which a slot waits for its upload to begin (§7 recommends 300 seconds).
const BEGIN_MS: u64 = 300_000;
const DAY_MS: u64 = 86_400_000;
/// The most bytes of a file's name.
const NAME_BYTES: usize = 255;
/// The most bytes of a file's media type.
const CONTENT_TYPE_BYTES: usize = 127;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_paths() {
        for good in ["a.jpg", "tr\u{e8}s cool.jpg", "...", "a b"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", ".", "..", "../a", "a/b", "a\\b", "a\u{0}b", &"x".repeat(256)] {
            assert!(!is_name(bad), "{bad}");
        }
        assert_eq!(encode("tr\u{e8}s cool.jpg"), "tr%C3%A8s%20cool.jpg");
        assert_eq!(encode("'\"<>&%"), "%27%22%3C%3E%26%25");
    }

    #[test]
    fn addresses_are_checked() {
        let check = |text: &str| address(&Value::Text(text.into())).is_ok();
        assert!(check("https://@:5443/upload") && check("https://share.example.org") && check(""));
        assert!(
            !check("https://")
                && !check("ftp://a")
                && !check("https://a/")
                && !check("https://a/?b")
                && !check("https://a'")
        );
    }
}
