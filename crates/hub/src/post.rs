//! Posts mail to other shards, and opens what comes from them.

use std::sync::Arc;

use crate::World;
use crate::mail::{MAX_BYTES, Mail, MailError, Named, Parcel, Read, VERSION};
use crate::module::Registry;
use crate::passage::Notes;

impl Parcel {
    /// Reads a wire form, in nobody's custody.
    ///
    /// # Errors
    /// The bytes are too many, of another version, or no mail that the modules of this registry
    /// know.
    pub fn decode(bytes: &[u8], registry: &Registry) -> Result<Self, MailError> {
        if bytes.len() > MAX_BYTES {
            return Err(MailError::TooLarge(bytes.len()));
        }
        let Some((&VERSION, body)) = bytes.split_first() else {
            return Err(MailError::Version(bytes.first().copied()));
        };
        let (read, rest) = postcard::take_from_bytes::<Read<'_>>(body)?;
        if !rest.is_empty() {
            return Err(MailError::Malformed(format!("{} bytes behind its end", rest.len())));
        }
        let mail = match read {
            Read::Route { to, packet } => Mail::Route { to, packet },
            Read::Copies { to, packet } => Mail::Copies { to: Arc::new(to), packet },
            Read::Bundle { to, packets } => Mail::Bundle { to, packets },
            Read::Service { to, packet } => Mail::Service { to, packet },
            Read::Distant(distant) => Mail::Distant(distant),
            Read::Probe { from, to } => Mail::Probe { from, to },
            Read::Letter(Named(name, bytes)) => {
                let decode = registry.letter_kind(name).ok_or_else(|| MailError::UnknownKind(name.to_owned()))?;
                Mail::Letter(decode(bytes)?)
            }
            Read::Question { question: Named(name, bytes), asker } => {
                let decode = registry.question_kind(name).ok_or_else(|| MailError::UnknownKind(name.to_owned()))?;
                Mail::Question { question: decode(bytes)?, asker }
            }
            Read::Reply { asker, answer } => Mail::Reply { asker, answer },
        };
        Ok(Self { mail, custody: None })
    }

    /// Returns the same parcel after a way through its wire form.
    fn through_wire(self, registry: &Registry) -> Result<Self, MailError> {
        Ok(Self { custody: self.custody.clone(), ..Self::decode(&self.encode()?, registry)? })
    }
}

impl World {
    /// Lets all mail that comes in from now on pass through its wire form first, as if its sender
    /// were elsewhere: for tests.
    pub fn encode_mail(&mut self) {
        self.out.encodes_mail = true;
    }

    /// Returns the mail that waits for another shard.
    pub fn take_mail(&mut self, shard: usize) -> Vec<Parcel> {
        self.out.mail.get_mut(shard).map(std::mem::take).unwrap_or_default()
    }

    /// Reads mail from another shard.
    ///
    /// # Panics
    /// After [`World::encode_mail`], where something was posted that has no wire form.
    pub fn mail(&mut self, parcel: Parcel) {
        let parcel = if self.out.encodes_mail {
            let posted = format!("{parcel:?}");
            parcel.through_wire(&self.catalogue.registry).unwrap_or_else(|error| panic!("{error}: {posted}"))
        } else {
            parcel
        };
        self.in_custody(parcel.custody, |world| world.open(parcel.mail));
    }

    fn open(&mut self, mail: Mail) {
        match mail {
            Mail::Route { to, packet } if !self.is_domain(to.domain()) => self.route(&packet, to.as_ref()),
            Mail::Route { to, packet } => {
                let hash = self.hash(to.bare_str());
                self.deliver(hash, &packet, to.as_ref(), Notes::default());
            }
            Mail::Copies { to, packet } => self.give(&packet, &to),
            Mail::Bundle { to, packets } => self.bundle(packets, &to),
            Mail::Service { to, packet } => drop(self.serve(&packet, to.as_ref())),
            Mail::Distant(distant) => self.multicast_away(*distant),
            Mail::Probe { from, to } => self.answer_probes(&from, &to),
            Mail::Letter(letter) => letter.open(self),
            Mail::Question { question, asker } => question.ask(self, asker),
            Mail::Reply { asker, answer } => self.gather(asker, answer),
        }
    }

    pub(crate) fn post(&mut self, shard: usize, mail: Mail) {
        let custody = self.custody();
        if let Some(batch) = self.out.mail.get_mut(shard) {
            batch.push(Parcel { mail, custody });
        }
    }
}

#[cfg(test)]
mod tests;
