//! Posts mail to other shards, and opens mail from them.

use std::sync::Arc;

use crate::World;
use crate::acting::Whereabouts;
use crate::calls::CarriedMemo;
use crate::custody::{Custody, ReturnedMail};
use crate::mail::{MAX_BYTES, Mail, MailError, NamedValue, Parcel, ReadMail, VERSION};
use crate::module::Registry;
use crate::passage::Notes;
use crate::untold;
use rookery_fanout::{Audience, Packet, StanzaType};
use rookery_jid::Jid;
use rookery_stream::error::Condition;
use rookery_xml::Kind;
use serde_bytes::ByteBuf;

impl Parcel {
    /// Reads a wire format, in nobody's custody.
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
        let (read, rest) = postcard::take_from_bytes::<ReadMail<'_>>(body)?;
        if !rest.is_empty() {
            return Err(MailError::Malformed(format!("{} bytes behind its end", rest.len())));
        }
        let mail = match read {
            ReadMail::Route { to, packet } => Mail::Route { to, packet },
            ReadMail::Copies { to, packet } => Mail::Copies { to: Arc::new(to), packet },
            ReadMail::Bundle { to, packets } => Mail::Bundle { to, packets },
            ReadMail::Service { to, packet } => Mail::Service { to, packet },
            ReadMail::Distant(distant) => Mail::Distant(distant),
            ReadMail::Probe { from, to } => Mail::Probe { from, to },
            ReadMail::Memo(NamedValue(name, bytes)) => {
                let decode = registry.memo_kind(name).ok_or_else(|| MailError::UnknownKind(name.to_owned()))?;
                Mail::Memo(decode(bytes)?)
            }
            ReadMail::Question { question: NamedValue(name, bytes), asker } => {
                let decode = registry.question_kind(name).ok_or_else(|| MailError::UnknownKind(name.to_owned()))?;
                Mail::Question { question: decode(bytes)?, asker }
            }
            ReadMail::Reply { asker, answer } => Mail::Reply { asker, answer },
            ReadMail::Incoming { to, packet } => Mail::Incoming { to, packet },
            ReadMail::Lost { domain } => Mail::Lost { domain },
            ReadMail::Homes { from, view } => Mail::Homes { from, view },
            ReadMail::Sent { from, view } => Mail::Sent { from, view },
            ReadMail::Cards(cards) => Mail::Cards(cards),
        };
        Ok(Self { mail, custody: None })
    }

    /// Returns the same parcel after a way through its wire form.
    fn through_wire(self, registry: &Registry) -> Result<Self, MailError> {
        Ok(Self { custody: self.custody.clone(), ..Self::decode(&self.encode()?, registry)? })
    }
}

impl World {
    /// Makes all mail that comes in from now on pass through its wire form first, as if its sender
    /// were on another node: for tests.
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
        debug_assert!(self.waiting.custody.is_none(), "mail comes in its sender's custody alone");
        self.in_custody(parcel.custody, |world| world.open(parcel.mail));
    }

    /// Reads the wire form of mail from another node. Its sender keeps its own custody until the
    /// last share in this one is given up.
    ///
    /// # Errors
    /// As [`Parcel::decode`].
    pub fn mail_from_afar(&mut self, bytes: &[u8], custody: Option<Custody>) -> Result<(), MailError> {
        let parcel = Parcel::decode(bytes, &self.catalogue.registry)?;
        self.in_custody(custody, |world| world.open(parcel.mail));
        Ok(())
    }

    /// Takes back mail, in its wire format, for homes that other nodes have now: mail for
    /// addresses, and probes, go there. Mail for a shard has no reader any more, and the shard that
    /// asked a question continues without an answer when the time for that is over.
    pub fn mail_again(&mut self, bytes: &[u8], custody: Option<Custody>) {
        let Ok(parcel) = Parcel::decode(bytes, &self.catalogue.registry) else { return };
        self.in_custody(custody, |world| match parcel.mail {
            Mail::Route { to, packet } | Mail::Service { to, packet } => world.route(&packet.again(), to.as_ref()),
            Mail::Bundle { to, packets } => world.bundle(packets.iter().map(Packet::again).collect(), &to),
            Mail::Copies { to, packet } => {
                let mut audience = Audience::new(world.shards());
                to.iter().for_each(|(hash, name)| audience.add(world.hop(hash), hash, name));
                world.fan_out_sorted(&packet.again(), audience);
            }
            Mail::Distant(distant) => world.multicast_away(*distant),
            Mail::Memo(memo) => memo.again(world),
            Mail::Incoming { to, packet } => world.incoming(&packet, to.as_ref()),
            Mail::Lost { domain } => world.lost(&domain),
            Mail::Cards(cards) => world.send_cards_again(cards.into_iter().map(ByteBuf::into_vec).collect()),
            Mail::Probe { from, to } => world.answer_probes(&from, &to),
            Mail::Question { .. } | Mail::Reply { .. } | Mail::Homes { .. } | Mail::Sent { .. } => {}
        });
    }

    /// Sends returned mail ahead of the mail for other nodes that waits.
    pub(crate) fn send_returned(&mut self, returned: Vec<ReturnedMail>) {
        if returned.is_empty() {
            return;
        }
        let own = self.own_shards();
        let waiting: Vec<_> = self.out.mail.iter_mut().skip(own).map(std::mem::take).collect();
        returned.into_iter().for_each(|(bytes, custody)| self.mail_again(&bytes, custody));
        for (mail, mut waiting) in self.out.mail.iter_mut().skip(own).zip(waiting) {
            mail.append(&mut waiting);
        }
    }

    /// Takes back mail, in its wire form, that could not be delivered to another node: senders of
    /// stanzas get an error where any error would be sent.
    pub fn mail_refused(&mut self, bytes: &[u8], custody: Option<Custody>) {
        let Ok(parcel) = Parcel::decode(bytes, &self.catalogue.registry) else { return };
        self.in_custody(custody, |world| world.refuse_mail(parcel.mail, &Condition::RemoteServerTimeout));
    }

    /// Tells the senders of mail that it can't be delivered.
    pub(crate) fn refuse_mail(&mut self, mail: Mail, why: &Condition) {
        match mail {
            Mail::Route { to, packet } if untold::is_of_message(&packet) => self.tell_later(to, packet),
            Mail::Route { to, packet } | Mail::Service { to, packet } | Mail::Incoming { to, packet } => {
                self.bounce(&packet, to.as_ref(), why.clone().into());
            }
            Mail::Bundle { to, packets } => {
                packets.iter().for_each(|packet| self.bounce(packet, to.as_ref(), why.clone().into()));
            }
            // A room's messages are in its archive.
            Mail::Copies { to, packet }
                if packet.kind() == Kind::Message && packet.type_() != StanzaType::Groupchat =>
            {
                for (_, name) in to.iter() {
                    if let Ok(to) = Jid::parse(name) {
                        self.bounce(&packet, to.as_ref(), why.clone().into());
                    }
                }
            }
            Mail::Memo(memo) => memo.refused(self),
            // Its node is away, and others take over from it, or it comes back.
            Mail::Cards(cards) => {
                let cards: Vec<_> = cards.into_iter().map(ByteBuf::into_vec).collect();
                self.after(CARDS_AGAIN_MS, move |world| world.send_cards_again(cards));
            }
            // Nobody waits for presence, and questions have a timeout.
            Mail::Copies { .. }
            | Mail::Distant(_)
            | Mail::Probe { .. }
            | Mail::Question { .. }
            | Mail::Reply { .. }
            | Mail::Lost { .. }
            | Mail::Homes { .. }
            | Mail::Sent { .. } => {}
        }
    }

    pub(crate) fn open(&mut self, mail: Mail) {
        match mail {
            Mail::Route { to, packet } if !self.is_domain(to.domain()) => self.route(&packet, to.as_ref()),
            Mail::Route { to, packet } => {
                let hash = self.hash(to.bare_str());
                self.deliver(hash, &packet, to.as_ref(), Notes::default());
            }
            Mail::Copies { to, packet } => self.deliver_copies(&packet, &to),
            Mail::Bundle { to, packets } => self.bundle_here(packets, &to),
            Mail::Service { to, packet } => drop(self.serve(&packet, to.as_ref())),
            Mail::Distant(distant) => self.multicast_away(*distant),
            Mail::Probe { from, to } => self.answer_probes(&from, &to),
            Mail::Memo(memo) => self.open_memo(memo),
            Mail::Question { question, asker } => question.ask(self, asker),
            // The shard's previous process may have put the question.
            Mail::Reply { asker, .. } if asker.station != self.station() => {}
            Mail::Reply { asker, answer } => self.gather(asker, answer),
            Mail::Incoming { to, packet } => self.arrive(&packet, &to),
            Mail::Lost { domain } => self.tell_lost(&domain),
            Mail::Homes { from, view } => self.heard_of(from, view, false),
            Mail::Sent { from, view } => self.heard_of(from, view, true),
            Mail::Cards(cards) => self.take_cards(cards),
        }
    }

    /// Opens a memo. One for an account whose home is elsewhere goes there, and one for a home that
    /// has yet to arrive here waits.
    fn open_memo(&mut self, memo: Box<dyn CarriedMemo>) {
        if self.people.moves.is_some()
            && let Some(home) = memo.home().filter(|home| home.local().is_some() && self.is_domain(home.domain()))
        {
            match self.whereabouts(self.hash(home.bare_str())) {
                Whereabouts::Here => {}
                Whereabouts::Awaited => return self.keep_mail(Mail::Memo(memo), 0),
                Whereabouts::Elsewhere(_) => return memo.again(self),
            }
        }
        memo.open(self);
    }

    pub(crate) fn post(&mut self, shard: usize, mail: Mail) {
        let custody = self.custody();
        debug_assert!(shard < self.shards(), "mail goes to a shard that is there");
        debug_assert!(shard != self.shard(), "a shard calls its own functions");
        if let Some(batch) = self.out.mail.get_mut(shard) {
            batch.push(Parcel { mail, custody });
        }
    }
}

/// Milliseconds until cards are sent again whose node is away.
const CARDS_AGAIN_MS: u64 = 1_000;

#[cfg(test)]
mod tests;
