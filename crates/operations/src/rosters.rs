//! Contacts of accounts.

use rookery_hub::{ContactOutcome, Hooks, Question, QuestionReply, WantedContact, World};
use rookery_jid::{Jid, JidRef};
use rookery_store::{Pending, RosterItem, StoreError, Stores};
use serde::{Deserialize, Serialize};

use crate::{Outcome, Refusal};

/// Returns the contacts in an account's own roster, without those that come from a group of the
/// domain.
pub fn list(stores: &Stores, account: JidRef<'_>) -> Pending<Outcome<Vec<RosterItem>>> {
    let (found, account) = (stores.rosters.get(account), account.to_jid());
    Box::pin(async move {
        match found.await {
            Ok(roster) => Ok(Ok(roster.items.into_iter().filter(RosterItem::visible).collect())),
            Err(StoreError::NoAccount) => Ok(Err(Refusal::no_account(account))),
            Err(error) => Err(error),
        }
    })
}

/// Changes a contact of an account, or removes it; the clients of the account are notified. With
/// `is_mutual`, both accounts, which must be of this server, become contacts of each other and see
/// each other's presence; their users aren't asked.
pub fn change(
    world: &mut World,
    owner: Jid,
    wanted: WantedContact,
    is_mutual: bool,
    then: impl FnOnce(&mut World, Outcome<()>) + 'static,
) {
    let exists = world.stores.accounts.exists(owner.as_ref());
    world.wait(exists, move |world, exists| match exists {
        Ok(true) => change_existing(world, owner, wanted, is_mutual, then),
        Ok(false) => then(world, Err(Refusal::no_account(owner))),
        Err(error) => then(world, Err(error.into())),
    });
}

fn change_existing(
    world: &mut World,
    owner: Jid,
    wanted: WantedContact,
    is_mutual: bool,
    then: impl FnOnce(&mut World, Outcome<()>) + 'static,
) {
    if is_mutual && !(world.is_here(wanted.contact.domain()) && wanted.contact.local().is_some()) {
        return then(
            world,
            Err(Refusal::Impossible("only accounts of this server become contacts of each other".into())),
        );
    }
    let (home, contact) = (world.home_of(owner.as_ref()), wanted.contact.clone());
    let change = ChangeContact { owner: owner.clone(), wanted };
    world.put_to(home, change, move |world, outcome| {
        let changed = Refusal::or_late(outcome).and_then(|outcome| match outcome {
            ContactOutcome::Done => Ok(()),
            ContactOutcome::Missing => Err(Refusal::Missing(format!("{contact} is not a contact of {owner}"))),
            ContactOutcome::Full => {
                let why = "the roster is full, a text is too long for it, or the contact is the account itself";
                Err(Refusal::Impossible(why.into()))
            }
            ContactOutcome::Shared => {
                Err(Refusal::Impossible(format!("{contact} is a contact through a group of [modules.shared_roster]")))
            }
        });
        if is_mutual && changed.is_ok() {
            world.befriend(owner, contact);
        }
        then(world, changed);
    });
}

/// Asks the home of an account to change a contact.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct ChangeContact {
    owner: Jid,
    wanted: WantedContact,
}

impl Question for ChangeContact {
    const NAME: &'static str = "operations contact";
    type Answer = Result<ContactOutcome, StoreError>;

    fn ask(self, world: &mut World, reply: QuestionReply<Self::Answer>) {
        world.change_contact(self.owner, self.wanted, move |world, outcome| reply.answer(world, outcome));
    }
}

/// Installs the handler of the question that changes a contact.
pub(crate) fn install(hooks: &mut Hooks<'_>) {
    hooks.question::<ChangeContact>();
}
