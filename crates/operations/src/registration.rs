//! New accounts that users create for themselves, and passwords that they set by a link: the
//! common part of XEP-0077's streams and the pages of the web front.
//!
//! # Invariants
//!
//! * A token is valid once: if two people show it, only one registers. A failed registration
//!   doesn't use it up.
//! * A name with rights, or with an open invitation, is reserved for the person who was invited
//!   under it.

use std::net::IpAddr;

use rookery_hub::World;
use rookery_hub::failure::condition;
use rookery_jid::Jid;
use rookery_sasl::Credentials;
use rookery_store::{Invitation, Purpose, StoreError};
use rookery_stream::error::StanzaError;

use crate::events::{self, EventKind};
use crate::invitations::fixed_name;
use crate::reports::{self, APPROVAL, AbuseReport};
use crate::rights::with_reserved;
use crate::welcome::welcome;
use crate::{lookalike, newcomer, password, sessions, users};

/// A requested registration. The caller checks whether registration is open to the user.
#[derive(Debug)]
pub struct Registration {
    /// The account, as [`account`] makes it from a name.
    pub account: Jid,
    /// The password, in the clear.
    pub password: String,
    /// The invitation that the user has shown, which is for the account's domain.
    pub invitation: Option<Invitation>,
    /// True if an operator has to approve the account before it can be used.
    pub waits: bool,
    /// The user's address, for the log.
    pub address: IpAddr,
}

/// The reason why there is no registration.
#[derive(Debug, Clone, PartialEq)]
pub enum Unregistered {
    /// The name is taken, or reserved.
    Taken,
    /// The link was used meanwhile.
    Used,
    /// The account whose password was to be set is gone.
    Gone,
    /// Another error for the client; the log has more if the server failed.
    Refused(StanzaError),
}

/// The reason why a name can't be that of a new account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadName {
    /// No account can have it (RFC 7622 §3.3).
    Impossible,
    /// It mixes letters of different scripts, as look-alikes of other names do.
    MixesScripts,
    /// The invitation is only for this name.
    OnlyFor(String),
}

/// Returns the account with a name that a user has chosen.
///
/// # Errors
/// The account is impossible, or not permitted by this invitation.
pub fn account(name: &str, domain: &str, invitation: Option<&Invitation>) -> Result<Jid, BadName> {
    let account = Jid::new(Some(name), domain, None).map_err(|_| BadName::Impossible)?;
    let local = account.local().ok_or(BadName::Impossible)?;
    if !lookalike::is_of_one_script(local) {
        return Err(BadName::MixesScripts);
    }
    match invitation.and_then(fixed_name) {
        Some(only) if only != local => Err(BadName::OnlyFor(only)),
        _ => Ok(account),
    }
}

/// Creates an account, or sets the password that an invitation is for.
pub fn register(
    world: &mut World,
    wanted: Registration,
    then: impl FnOnce(&mut World, Result<(), Unregistered>) + 'static,
) {
    let way = OnTheWay { wanted, then: Box::new(then) };
    if way.resets() {
        return way.derive(world);
    }
    // A name that has rights before it has an account isn't for the first stranger.
    with_reserved(world, &way.wanted.account.clone(), move |world, is_reserved| match is_reserved {
        Ok(true) if !way.is_invited_as() => way.end(world, Err(Unregistered::Taken)),
        Ok(_) => way.look_up(world),
        Err(error) => way.end(world, Err(Unregistered::Refused(error))),
    });
}

/// A registration in progress.
struct OnTheWay {
    wanted: Registration,
    then: RegistrationThen,
}

type RegistrationThen = Box<dyn FnOnce(&mut World, Result<(), Unregistered>)>;

impl OnTheWay {
    /// Checks whether the name is free: it is taken if the account exists, or if an invitation is
    /// for it (XEP-0401 §4).
    fn look_up(self, world: &mut World) {
        let exists = world.stores.accounts.exists(self.wanted.account.as_ref());
        let reserved = world.stores.invitations.is_reserved(self.wanted.account.as_ref(), world.time());
        world.wait(exists, move |world, exists| match exists {
            Ok(true) => self.end(world, Err(Unregistered::Taken)),
            Ok(false) => world.wait(reserved, move |world, reserved| match reserved {
                Ok(true) if !self.is_invited_as() => self.end(world, Err(Unregistered::Taken)),
                Ok(_) => self.derive(world),
                Err(error) => self.fail(world, &error),
            }),
            Err(error) => self.fail(world, &error),
        });
    }

    fn derive(mut self, world: &mut World) {
        let password = std::mem::take(&mut self.wanted.password);
        let derived = password::derive(world, self.wanted.account.as_ref(), password);
        world.wait(derived, move |world, derived| {
            match password::credentials_of(world, &self.wanted.account, derived) {
                Ok(credentials) => self.use_token(world, credentials),
                Err(error) => self.end(world, Err(Unregistered::Refused(error))),
            }
        });
    }

    /// Uses the token up.
    fn use_token(self, world: &mut World, credentials: Credentials) {
        let Some(invitation) = &self.wanted.invitation else { return self.create(world, credentials) };
        // XEP-0445 §3: a token that has expired since it was shown is still accepted.
        let taken = world.stores.invitations.take(&invitation.token, 0);
        world.wait(taken, move |world, taken| match taken {
            Ok(Some(_)) if self.resets() => self.set_password(world, credentials),
            Ok(Some(_)) => self.create(world, credentials),
            Ok(None) => self.end(world, Err(Unregistered::Used)),
            Err(error) => self.fail(world, &error),
        });
    }

    fn set_password(self, world: &mut World, credentials: Credentials) {
        let set = world.stores.accounts.set_credentials(self.wanted.account.as_ref(), credentials);
        world.wait(set, move |world, set| match set {
            Ok(true) => {
                let Registration { account, address, .. } = &self.wanted;
                tracing::info!(%account, %address, "a password was set through a link");
                sessions::password_changed(world, account.clone(), None, |_, _| {});
                self.end(world, Ok(()));
            }
            Ok(false) => self.end(world, Err(Unregistered::Gone)),
            Err(error) => self.give_token_back(world, move |way, world| way.fail(world, &error)),
        });
    }

    fn create(self, world: &mut World, credentials: Credentials) {
        let created = world.stores.accounts.create(self.wanted.account.as_ref(), credentials);
        world.wait(created, move |world, created| match created {
            Ok(true) if self.wanted.waits => self.wait_for_approval(world),
            Ok(true) => self.finish(world),
            // Another registration was faster.
            Ok(false) => self.give_token_back(world, |way, world| way.end(world, Err(Unregistered::Taken))),
            Err(error) => self.give_token_back(world, move |way, world| way.fail(world, &error)),
        });
    }

    /// Keeps a new account from logging in until an operator, who finds it among the reports,
    /// approves it.
    fn wait_for_approval(self, world: &mut World) {
        let account = self.wanted.account.clone();
        users::set_disabled(world, account.clone(), true, move |world, disabled| {
            if let Err(refusal) = disabled {
                tracing::warn!(%account, %refusal, "a new account couldn't be put up for approval");
            }
            let Ok(server) = Jid::parse(account.domain()) else { return self.finish(world) };
            let (serial, text) = (world.unique_text(), format!("registered from {}", self.wanted.address));
            let report = AbuseReport::new(world.time(), &serial, server, account.clone(), APPROVAL, &text);
            let kept = reports::keep(&world.stores, account.domain(), &report);
            world.wait(kept, move |world, kept| {
                if let Err(error) = kept {
                    world.store_failed("keeping a new account for approval", &account, &error);
                }
                self.finish(world);
            });
        });
    }

    fn finish(self, world: &mut World) {
        let Registration { account, address, .. } = &self.wanted;
        tracing::info!(%account, %address, "an account was created");
        let (account, invitation) = (account.clone(), self.wanted.invitation.clone());
        let by = if invitation.is_some() { "invitation" } else { "registration" };
        let fields = vec![("account", account.to_string()), ("by", by.to_owned())];
        events::note(world, account.domain(), EventKind::AccountCreated, fields);
        if invitation.is_none() {
            newcomer::mark(world, account.as_ref());
        }
        // The reply comes before its effects: the contact and the welcome message.
        self.end(world, Ok(()));
        if let Some(inviter) = invitation.and_then(|invitation| invitation.owner) {
            world.befriend(inviter, account.clone());
        }
        welcome(world, &account);
    }

    /// Restores the token, which a failed registration doesn't use up (XEP-0445 §3).
    fn give_token_back(self, world: &mut World, then: impl FnOnce(Self, &mut World) + 'static) {
        let Some(invitation) = self.wanted.invitation.clone() else { return then(self, world) };
        let kept = world.stores.invitations.put(invitation, world.time(), usize::MAX);
        world.wait(kept, move |world, kept| {
            if let Err(error) = kept {
                world.store_failed("keeping an invitation", &self.wanted.account, &error);
            }
            then(self, world);
        });
    }

    /// Returns whether a password is set, rather than an account created.
    fn resets(&self) -> bool {
        self.wanted.invitation.as_ref().is_some_and(|invitation| invitation.purpose == Purpose::Password)
    }

    /// Returns whether the invitation is for exactly this name.
    fn is_invited_as(&self) -> bool {
        self.wanted.invitation.as_ref().and_then(fixed_name).as_deref() == self.wanted.account.local()
    }

    fn fail(self, world: &mut World, error: &StoreError) {
        world.store_failed("creating an account", &self.wanted.account, error);
        self.end(world, Err(Unregistered::Refused(condition(error).into())));
    }

    fn end(self, world: &mut World, outcome: Result<(), Unregistered>) {
        (self.then)(world, outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_that_an_account_can_have() {
        let name = |name: &str| account(name, "a.example", None);
        assert_eq!(name("Romeo").unwrap().as_str(), "romeo@a.example");
        assert_eq!(name("ju@liet"), Err(BadName::Impossible));
        assert_eq!(name(""), Err(BadName::Impossible));
        assert_eq!(name("r\u{43e}meo"), Err(BadName::MixesScripts));
    }

    #[test]
    fn an_invitation_may_be_for_one_name() {
        let of = |purpose, owner: Option<&str>| Invitation {
            token: "t".into(),
            domain: "a.example".into(),
            purpose,
            owner: owner.and_then(|owner| Jid::parse(owner).ok()),
            expires_ms: 1,
        };
        let only = of(Purpose::Account(Some("romeo".into())), None);
        assert!(account("Romeo", "a.example", Some(&only)).is_ok());
        assert_eq!(account("juliet", "a.example", Some(&only)), Err(BadName::OnlyFor("romeo".into())));
        let reset = of(Purpose::Password, Some("juliet@a.example"));
        assert_eq!(account("romeo", "a.example", Some(&reset)), Err(BadName::OnlyFor("juliet".into())));
        let any = of(Purpose::Account(None), Some("juliet@a.example"));
        assert!(account("romeo", "a.example", Some(&any)).is_ok());
    }
}
