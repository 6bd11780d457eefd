//! A tally of the messages that accounts of this server got. It shows how a shard keeps a count,
//! sees the stanzas that pass it, and exchanges questions and memos with other shards.
//!
//! `<tally xmlns='urn:example:tally'/>` in an IQ of type get requests the tally. In an IQ of type
//! set, by an administrator of the server, it sets the tally to 0.

use rookery_hub::{Delivery, Hooks, Iq, Memo, Module, Passage, Phase, Question, QuestionReply, Stanzas, Target, World};
use rookery_operations::rights::{Rights, with_rights};
use rookery_stream::error::Condition;
use serde::{Deserialize, Serialize};

/// Counts messages.
#[derive(Debug)]
pub struct TallyModule;

impl Module for TallyModule {
    fn name(&self) -> &'static str {
        "tally"
    }

    fn summary(&self) -> &'static str {
        "users learn how many messages have come"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("urn:example:tally", "1")]
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.state(TallyMessages::default());
        hooks.before_delivery(Phase::Record, Stanzas::MESSAGES, came);
        hooks.question::<HowMany>();
        hooks.memo::<BeginAgain>();
        hooks.iq(Target::Server, NS, |world, iq| match iq.payload.name() {
            "tally" if iq.set => begin_again(world, iq),
            "tally" => add_up(world, iq),
            _ => world.reply_error(&iq, Condition::BadRequest),
        });
    }
}

/// The messages that came for accounts of this shard.
#[derive(Debug, Default)]
struct TallyMessages(u64);

fn came(world: &mut World, _: Passage<'_>) -> Delivery {
    world.state_mut::<TallyMessages>().0 += 1;
    Delivery::Pass
}

/// Asks a shard for the messages that came there.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct HowMany;

impl Question for HowMany {
    const NAME: &'static str = "tally how many";
    type Answer = u64;

    fn ask(self, world: &mut World, reply: QuestionReply<u64>) {
        let messages = world.state::<TallyMessages>().0;
        reply.answer(world, messages);
    }
}

fn add_up(world: &mut World, iq: Iq) {
    world.put_to_all(HowMany, move |world, answers| {
        let mut reply = iq.result();
        let messages: u64 = answers.iter().flatten().sum();
        reply.start_ns("tally", NS).attr("messages", &messages.to_string());
        // A shard that was late is not a shard without messages.
        if answers.contains(&None) {
            reply.attr("partial", "true");
        }
        world.reply(&iq, reply);
    });
}

/// Tells a shard to count from 0.
#[derive(Debug, Serialize, Deserialize)]
struct BeginAgain;

impl Memo for BeginAgain {
    const NAME: &'static str = "tally begin again";

    fn open(self, world: &mut World) {
        *world.state_mut() = TallyMessages::default();
    }
}

fn begin_again(world: &mut World, iq: Iq) {
    let domain = iq.to.domain().to_owned();
    with_rights(world, &domain, &iq.from.clone(), move |world, rights| match rights {
        Ok(Rights::Server) => {
            for shard in 0..world.shards() {
                world.send_memo(shard, BeginAgain);
            }
            world.reply_done(&iq);
        }
        Ok(_) => world.reply_error(&iq, Condition::Forbidden),
        Err(error) => world.reply_error(&iq, error),
    });
}

const NS: &str = "urn:example:tally";
