//! Shards of other nodes, as an operator queries them: counts, and streams with other servers.
//!
//! A shard is asked by mail and answers by mail, since nodes exchange nothing else. If a shard
//! doesn't answer in time, its part is missing, and the operator is told.

use std::net::SocketAddr;

use rookery_base::{Awaited, Transport};
use rookery_federation::report::{StreamDirection, StreamReport};
use rookery_hub::{Bound, DriverQuestion, Most, Per, QuestionReply, Unit};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::census::{Carrier, CensusDetails, ShardCensus};
use crate::door::Door;
use crate::driver::Driver;
use crate::shard::Shard;

/// The answers of the shards of other nodes.
#[derive(Debug)]
pub struct AnswersElsewhere<T> {
    /// The answers so far.
    pub answers: Vec<T>,
    /// The number of shards that haven't answered in time.
    pub missing: usize,
}

/// The part of a census that another node reports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CensusElsewhere {
    users: usize,
    sessions: usize,
    connections: usize,
    waiting_bytes: usize,
    tasks: usize,
    since_start: CountsElsewhere,
    /// By domain, transport (`None` for sessions that wait for their clients), and TLS.
    by_domain: Vec<(String, Option<String>, bool, usize)>,
}

/// The counts of another node since its start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct CountsElsewhere {
    deliveries: u64,
    bound: u64,
    messages_in: u64,
    presence_in: u64,
    iqs_in: u64,
    store_errors: u64,
    overflows: u64,
}

/// A stream with another server, as another node reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamElsewhere {
    remote: String,
    local: String,
    direction: String,
    state: String,
    security: String,
    address: Option<SocketAddr>,
    waiting: usize,
    quiet_ms: u64,
    trouble: String,
}

impl CensusElsewhere {
    fn new(census: &ShardCensus) -> Self {
        let by_domain = census.by_domain().map(|((domain, carrier), count)| {
            let transport = carrier.transport.map(|transport| transport.label().to_owned());
            (domain.clone(), transport, carrier.tls, count)
        });
        Self {
            users: census.users,
            sessions: census.sessions,
            connections: census.connections,
            waiting_bytes: census.unread.bytes,
            tasks: census.tasks,
            since_start: CountsElsewhere {
                deliveries: census.deliveries,
                bound: census.counters.bound,
                messages_in: census.counters.messages_in,
                presence_in: census.counters.presence_in,
                iqs_in: census.counters.iqs_in,
                store_errors: census.counters.store_errors,
                overflows: census.counters.overflows,
            },
            by_domain: by_domain.collect(),
        }
    }

    fn add_to(self, census: &mut ShardCensus) {
        census.users += self.users;
        census.sessions += self.sessions;
        census.connections += self.connections;
        census.deliveries += self.since_start.deliveries;
        census.unread.bytes += self.waiting_bytes;
        census.tasks += self.tasks;
        census.counters.bound += self.since_start.bound;
        census.counters.messages_in += self.since_start.messages_in;
        census.counters.presence_in += self.since_start.presence_in;
        census.counters.iqs_in += self.since_start.iqs_in;
        census.counters.store_errors += self.since_start.store_errors;
        census.counters.overflows += self.since_start.overflows;
        let Some(details) = &mut census.details else { return };
        for (domain, transport, tls, count) in self.by_domain {
            let transport = transport.map(|label| Transport::from_label(&label).unwrap_or_default());
            *details.by_domain.entry((domain, Carrier { transport, tls })).or_default() += count;
        }
    }
}

impl AnswersElsewhere<CensusElsewhere> {
    /// Adds these counts to those of this node.
    pub fn add_to(self, census: &mut ShardCensus) {
        census.coverage.shards += self.answers.len() + self.missing;
        census.coverage.answered += self.answers.len();
        self.answers.into_iter().for_each(|counted| counted.add_to(census));
    }
}

impl From<StreamReport> for StreamElsewhere {
    fn from(report: StreamReport) -> Self {
        Self {
            remote: report.remote,
            local: report.local,
            direction: report.direction.name().to_owned(),
            state: report.state.into_owned(),
            security: report.security.into_owned(),
            address: report.address,
            waiting: report.waiting,
            quiet_ms: report.quiet_ms,
            trouble: report.trouble,
        }
    }
}

impl From<StreamElsewhere> for StreamReport {
    fn from(told: StreamElsewhere) -> Self {
        Self {
            remote: told.remote,
            local: told.local,
            direction: StreamDirection::from_name(&told.direction).unwrap_or(StreamDirection::Incoming),
            state: told.state.into(),
            security: told.security.into(),
            address: told.address,
            waiting: told.waiting,
            quiet_ms: told.quiet_ms,
            trouble: told.trouble,
            key: None,
        }
    }
}

impl<D: Driver> Shard<D> {
    /// Answers a question of another node.
    pub(crate) fn asked_by_node(&mut self, question: DriverQuestion, reply: QuestionReply<ByteBuf>) {
        let answer = match question {
            DriverQuestion::Count => {
                let mut census = ShardCensus { details: Some(CensusDetails::default()), ..ShardCensus::default() };
                self.be_counted(&mut census);
                postcard::to_allocvec(&CensusElsewhere::new(&census))
            }
            DriverQuestion::Streams => {
                let streams = self.report_streams().into_iter().take(MOST_STREAMS).map(StreamElsewhere::from);
                postcard::to_allocvec(&streams.collect::<Vec<_>>())
            }
            DriverQuestion::CloseStreams { remote, locals } => {
                postcard::to_allocvec(&self.close_streams_with(&remote, locals.as_deref()))
            }
            DriverQuestion::Trace { reader, subject, extent, remaining_ms } => {
                postcard::to_allocvec(&self.trace_for_node(reader, &subject, extent, remaining_ms))
            }
            DriverQuestion::EndTrace { reader } => {
                self.world.end_trace(reader);
                postcard::to_allocvec(&())
            }
        };
        if let Ok(answer) = answer {
            reply.answer(&mut self.world, ByteBuf::from(answer));
        }
    }
}

impl Door {
    /// Counts for the shards of other nodes, including each session.
    pub fn census_elsewhere(&self) -> Awaited<AnswersElsewhere<CensusElsewhere>> {
        self.ask_elsewhere(DriverQuestion::Count)
    }

    /// Lists the streams of other nodes with other servers, a list for each shard.
    pub fn servers_elsewhere(&self) -> Awaited<AnswersElsewhere<Vec<StreamElsewhere>>> {
        self.ask_elsewhere(DriverQuestion::Streams)
    }

    /// Ends the streams of other nodes with a domain or component, see [`Door::close_servers`].
    pub fn close_servers_elsewhere(
        &self,
        remote: String,
        locals: Option<Vec<String>>,
    ) -> Awaited<AnswersElsewhere<usize>> {
        self.ask_elsewhere(DriverQuestion::CloseStreams { remote, locals })
    }

    pub(crate) fn ask_elsewhere<T: DeserializeOwned + Send + 'static>(
        &self,
        question: DriverQuestion,
    ) -> Awaited<AnswersElsewhere<T>> {
        self.ask(move |world, completer| {
            world.ask_drivers_elsewhere(&question, move |_, told| {
                let asked = told.len();
                let answers = told.into_iter().flatten().filter_map(|bytes| postcard::from_bytes(&bytes).ok());
                let answers: Vec<T> = answers.collect();
                let missing = asked - answers.len();
                completer.complete(AnswersElsewhere { answers, missing });
            });
        })
    }
}

/// The bounds of the reports.
pub const BOUNDS: &[Bound] = &[Bound::on(
    "streams with other servers that a shard reports to another node",
    Per::Shard,
    Most::Fixed(MOST_STREAMS as u64),
    Unit::Number,
)
.or("others are left out there")];
/// Streams that one shard reports.
const MOST_STREAMS: usize = 5_000;
