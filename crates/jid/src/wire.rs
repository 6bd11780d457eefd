//! Addresses in mail between shards or nodes: their text, prepared again by the reader.

use serde_core::de::Error;
use serde_core::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Jid;

impl Serialize for Jid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Jid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Jid::parse(&text).map_err(D::Error::custom)
    }
}
