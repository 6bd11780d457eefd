//! The place of a property within its node: an SSDN, a process variable, or a topic.

use std::sync::Arc;

use super::mistake::{At, Wrong};
use crate::channel_access::LONGEST_NAME;
use crate::database::{Reached, TopicPlace};
use crate::mqtt;

/// The place of a property, as in the file.
#[derive(Debug, Default)]
pub(super) struct PlaceRow {
    pub(super) node: At<String>,
    pub(super) ssdn: Option<At<String>>,
    pub(super) variable: Option<At<String>>,
    pub(super) topic: Option<At<String>>,
    pub(super) pointer: Option<At<String>>,
    pub(super) retain: Option<At<bool>>,
    pub(super) element: Option<At<u32>>,
    pub(super) size: Option<At<u32>>,
    pub(super) default_size: Option<At<u32>>,
    pub(super) event: Option<At<String>>,
    pub(super) unframed: bool,
}

/// The place of a property within its node.
pub(super) struct NamedPlace {
    /// The SSDN; for a variable or topic, a hash of its name.
    pub(super) ssdn: [u8; 8],
    pub(super) variable: Option<Arc<str>>,
    pub(super) topic: Option<TopicPlace>,
}

impl PlaceRow {
    /// Returns the place of a property within a node that is reached in this way. `usual` is the
    /// default size of an element.
    pub(super) fn within(&self, reached: Option<&Reached>, usual: u32) -> Result<NamedPlace, Wrong> {
        let (own, others) = match reached {
            Some(Reached::ChannelAccess(_) | Reached::PvAccess(_)) => ("pv", ["ssdn", "topic"]),
            Some(Reached::Mqtt(_)) => ("topic", ["ssdn", "pv"]),
            Some(Reached::Acnet(_)) | None => ("ssdn", ["pv", "topic"]),
        };
        for other in others {
            if let Some(row) = self.value_of(other) {
                let what = format!("is for nodes with protocol {}; this one has {own}", protocols(other));
                return Err(row.wrong(other, what));
            }
        }
        let pointer = self.pointer.as_ref().map(|row| row.wrong("json", FOR_TOPICS));
        let retain = self.retain.as_ref().map(|row| row.wrong("retain", FOR_TOPICS));
        if let Some(wrong) = pointer.or(retain).filter(|_| own != "topic") {
            return Err(wrong);
        }
        let Some(row) = self.value_of(own) else { return Err(Wrong::new(own, hint_for_missing(own))) };
        match own {
            "pv" => self.variable_at(row, usual),
            "topic" => self.topic_at(row, usual),
            _ => {
                let ssdn = unhex(&row.value).ok_or_else(|| row.wrong("ssdn", "sixteen hexadecimal digits"))?;
                Ok(NamedPlace { ssdn, variable: None, topic: None })
            }
        }
    }

    fn value_of(&self, key: &str) -> Option<&At<String>> {
        match key {
            "pv" => self.variable.as_ref(),
            "topic" => self.topic.as_ref(),
            _ => self.ssdn.as_ref(),
        }
    }

    fn variable_at(&self, row: &At<String>, usual: u32) -> Result<NamedPlace, Wrong> {
        let name = row.value.as_str();
        let is_good = (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_good {
            let what = format!("a name of up to {LONGEST_NAME} letters of ASCII, without blanks");
            return Err(row.wrong("pv", what));
        }
        let element = self.element_of(usual)?;
        Ok(NamedPlace { ssdn: hash(name, "", element), variable: Some(name.into()), topic: None })
    }

    fn topic_at(&self, row: &At<String>, usual: u32) -> Result<NamedPlace, Wrong> {
        let name = row.value.as_str();
        if !mqtt::is_topic(name) {
            let what = format!("a topic of up to {} bytes, without + and #", mqtt::LONGEST_TOPIC);
            return Err(row.wrong("topic", what));
        }
        let pointer = match &self.pointer {
            Some(pointer) if pointer.value.starts_with('/') && pointer.value.len() <= mqtt::LONGEST_TOPIC => {
                Some(pointer.value.as_str())
            }
            Some(pointer) => {
                return Err(pointer.wrong("json", "a pointer to a part of the message, such as \"/temperature\""));
            }
            None => None,
        };
        let element = self.element_of(usual)?;
        let is_retained = self.retain.as_ref().is_some_and(|retain| retain.value);
        let topic = TopicPlace { name: name.into(), pointer: pointer.map(Arc::from), is_retained };
        Ok(NamedPlace { ssdn: hash(name, pointer.unwrap_or_default(), element), variable: None, topic: Some(topic) })
    }

    /// Returns the size of an element in bytes: that of a number, or of a text as long as the file
    /// says.
    fn element_of(&self, usual: u32) -> Result<u32, Wrong> {
        let element = self.element.as_ref().map_or(usual, |element| element.value);
        match &self.element {
            Some(given) if usual == VARIABLE_TEXT && element < VARIABLE_TEXT => {
                Err(given
                    .wrong("element", format!("from {VARIABLE_TEXT} on for a text of a process variable or topic")))
            }
            Some(given) if usual != VARIABLE_TEXT && element != usual => {
                Err(given.wrong("element", format!("{usual} for a process variable or topic; leave it out")))
            }
            _ => Ok(element),
        }
    }
}

fn protocols(key: &str) -> &'static str {
    match key {
        "pv" => "CA or PVA",
        "topic" => "MQTT",
        _ => "RETDAT or GETS32",
    }
}

fn hint_for_missing(key: &str) -> &'static str {
    match key {
        "pv" => "is missing: the name of the process variable",
        "topic" => "is missing: the topic, such as \"hall/temperature\"",
        _ => "is missing; ssdn = \"000042003f210000\", for example",
    }
}

/// Returns eight bytes that stand for the name of a variable or topic (FNV-1a), so that another
/// name is another place after a reload.
fn hash(name: &str, pointer: &str, element: u32) -> [u8; 8] {
    let bytes = name.bytes().chain(pointer.bytes()).chain(element.to_le_bytes());
    bytes
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
        .to_le_bytes()
}

fn unhex(text: &str) -> Option<[u8; 8]> {
    let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u64::from_str_radix(text, 16).ok()).flatten().map(u64::to_be_bytes)
}

const FOR_TOPICS: &str = "is for properties with a topic";
/// The bytes of a text of Channel Access, and the fewest of a text of a topic.
pub(super) const VARIABLE_TEXT: u32 = 40;
