//! Basic status: up to five attributes, each some bits of a word.

/// An attribute, which is true if ((word & mask) == matching) differs from invert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attribute {
    /// The bits that are compared.
    pub mask: u32,
    /// The value of these bits when the attribute is true.
    pub matching: u32,
    /// True if the result is inverted.
    pub invert: bool,
    /// The character that displays show while it is true; `None` if the database names none.
    pub yes: Option<char>,
    /// The character that displays show while it is false.
    pub no: Option<char>,
}

/// The attributes of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatusBits {
    /// The attribute for being on.
    pub on: Option<Attribute>,
    /// The attribute for being ready.
    pub ready: Option<Attribute>,
    /// The attribute for being under remote control.
    pub remote: Option<Attribute>,
    /// The attribute for positive polarity.
    pub positive: Option<Attribute>,
    /// The attribute for ramping.
    pub ramp: Option<Attribute>,
}

/// The words for an attribute, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttributeWords {
    /// The name of the attribute, such as `Ready`.
    pub name: &'static str,
    /// The state if it is true.
    pub yes: &'static str,
    /// The state if it isn't.
    pub no: &'static str,
}

/// The meaning of a bit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bit {
    /// Its number; 0 is the lowest.
    pub number: u8,
    /// The name of the bit, as the device file gives it.
    pub name: String,
    /// The meaning when it is 0.
    pub zero: String,
    /// The meaning when it is 1.
    pub one: String,
}

impl Attribute {
    /// Returns whether the attribute is true in a status word.
    pub fn of(self, word: u32) -> bool {
        (word & self.mask == self.matching) != self.invert
    }
}

impl StatusBits {
    /// Returns the attributes that the device has, with their words, in the order of displays.
    pub fn attributes(&self) -> Vec<(AttributeWords, Attribute)> {
        let all = [self.on, self.ready, self.remote, self.positive, self.ramp];
        WORDS.iter().zip(all).filter_map(|(words, attribute)| Some((*words, attribute?))).collect()
    }

    /// Returns the text that displays show of a status word: a character for each attribute, a
    /// space for one that the device lacks.
    pub fn text(&self, word: u32) -> String {
        let all = [self.on, self.ready, self.remote, self.positive, self.ramp];
        let shown = |attribute: Attribute| if attribute.of(word) { attribute.yes } else { attribute.no };
        all.into_iter().map(|attribute| attribute.and_then(shown).unwrap_or(' ')).collect()
    }
}

impl Bit {
    /// Returns the name of each bit followed by its meaning in a status word, in the order of the
    /// database.
    pub fn names_and_meanings(bits: &[Bit], word: u32) -> Vec<String> {
        bits.iter().flat_map(|bit| [bit.name.clone(), bit.value(word).to_owned()]).collect()
    }

    /// Returns a text for each bit number up to the highest with a name; empty for bits without
    /// one.
    pub fn texts(bits: &[Bit], text: impl Fn(&Bit) -> &str) -> Vec<String> {
        let count = bits.iter().map(|bit| usize::from(bit.number) + 1).max().unwrap_or(0);
        let mut texts = vec![String::new(); count];
        for bit in bits {
            text(bit).clone_into(&mut texts[usize::from(bit.number)]);
        }
        texts
    }

    /// Returns its meaning in a status word.
    pub fn value(&self, word: u32) -> &str {
        let is_set = word.checked_shr(u32::from(self.number)).is_some_and(|word| word & 1 == 1);
        if is_set { &self.one } else { &self.zero }
    }
}

/// The words for on, ready, remote, positive and ramp.
const WORDS: [AttributeWords; 5] = [
    AttributeWords { name: "On", yes: "On", no: "Off" },
    AttributeWords { name: "Ready", yes: "Ready", no: "Tripped" },
    AttributeWords { name: "Remote", yes: "Remote", no: "Local" },
    AttributeWords { name: "Positive", yes: "Positive", no: "Negative" },
    AttributeWords { name: "Ramp", yes: "Ramp", no: "DC" },
];
