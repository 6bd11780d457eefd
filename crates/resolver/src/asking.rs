//! Queries one name server: through the library's resolver or, where the server's statement about
//! signatures matters, without it, since the resolver neither requests that statement nor keeps it
//! through aliases.
//!
//! # Invariants
//!
//! * An answer is signed if the message that contains it says so (RFC 6840 §5.8) and comes from a
//!   name server that the operator trusts. Such an answer is never combined from several messages.
//! * A name server that finds a signature to be wrong replies with an error (RFC 4035 §5.5), which
//!   is not an answer.

use std::sync::Arc;
use std::time::Instant;

use hickory_resolver::config::{NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::xfer::{DnsHandle, FirstAnswer, RetryDnsHandle};
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::{DnsRequest, DnsRequestOptions, Message, Query};
use hickory_resolver::proto::rr::{Name, Record, RecordType};
use hickory_resolver::{NameServerPool, PoolContext, ResponseCache, TlsConfig, TokioResolver, TtlConfig};

/// The records in an answer.
pub(crate) struct DnsAnswer {
    pub records: Vec<Record>,
    /// True if a trusted name server has validated them.
    pub is_signed: bool,
}

/// The client of a name server.
pub(crate) enum NameServerAsker {
    /// A client whose answers never count as signed.
    Plain(TokioResolver),
    /// A client whose answers may count as signed.
    Trusted(Trusted),
}

/// A name server whose statement about signatures counts, and its answers for as long as they are
/// valid.
pub(crate) struct Trusted {
    server: RetryDnsHandle<NameServerPool<TokioRuntimeProvider>>,
    cache: ResponseCache,
    options: DnsRequestOptions,
}

impl NameServerAsker {
    /// Creates a client of a name server, whose statements count if `is_trusted`.
    pub(crate) fn new(server: NameServerConfig, options: &ResolverOpts, is_trusted: bool) -> Result<Self, NetError> {
        let provider = TokioRuntimeProvider::default();
        if is_trusted {
            let cache = ResponseCache::new(options.cache_size, TtlConfig::from_opts(options));
            let mut of_request = DnsRequestOptions::default();
            of_request.case_randomization = options.case_randomization;
            let context = Arc::new(PoolContext::new(options.clone(), TlsConfig::new()?));
            let pool = NameServerPool::from_config([server], context, provider);
            let server = RetryDnsHandle::new(pool, options.attempts);
            return Ok(Self::Trusted(Trusted { server, cache, options: of_request }));
        }
        let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
        let builder = TokioResolver::builder_with_config(config, provider);
        Ok(Self::Plain(builder.with_options(options.clone()).build()?))
    }

    /// Queries the records of a name.
    pub(crate) async fn ask(&self, name: &Name, type_: RecordType) -> Result<DnsAnswer, NetError> {
        match self {
            Self::Plain(resolver) => {
                let lookup = resolver.lookup(name.clone(), type_).await?;
                Ok(DnsAnswer { records: lookup.answers().to_vec(), is_signed: false })
            }
            Self::Trusted(trusted) => {
                let message = trusted.ask(Query::query(name.clone(), type_)).await?;
                Ok(DnsAnswer { is_signed: message.metadata.authentic_data, records: message.answers })
            }
        }
    }
}

impl Trusted {
    async fn ask(&self, query: Query) -> Result<Message, NetError> {
        if let Some(known) = self.cache.get(&query, Instant::now()) {
            return known;
        }
        let mut request = DnsRequest::from_query(query.clone(), self.options);
        // This asks whether the answer is signed, but not for its signatures (RFC 6840 §5.7).
        request.metadata.authentic_data = true;
        let answer = self.server.send(request).first_answer().await;
        let answer = answer.and_then(|answer| DnsError::from_response(answer).map_err(NetError::from));
        let answer = answer.map(|answer| answer.into_message());
        self.cache.insert(query, answer.clone(), Instant::now());
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hickory_resolver::proto::op::MessageType;
    use hickory_resolver::proto::rr::RData;
    use hickory_resolver::proto::rr::rdata::A;

    use super::*;
    use crate::bound;

    /// An answer is valid for as long as its zone says, between half a minute and an hour. Then the
    /// name is queried again, so that a server that has moved is found.
    #[test]
    fn answers_hold_as_long_as_their_zones_say_within_bounds() {
        let mut options = ResolverOpts::default();
        bound(&mut options);
        let name = Name::from_ascii("a.example.").expect("a name");
        let query = Query::query(name.clone(), RecordType::A);
        let now = Instant::now();
        for (said, holds) in [(0, 30), (1, 30), (30, 30), (300, 300), (3_600, 3_600), (604_800, 3_600)] {
            let cache = ResponseCache::new(options.cache_size, TtlConfig::from_opts(&options));
            let mut message = Message::response(1, hickory_resolver::proto::op::OpCode::Query);
            message.metadata.message_type = MessageType::Response;
            message.add_query(query.clone());
            message.add_answer(Record::from_rdata(name.clone(), said, RData::A(A::new(192, 0, 2, 1))));
            cache.insert(query.clone(), Ok(message), now);
            let is_known = |seconds| cache.get(&query, now + Duration::from_secs(seconds)).is_some();
            assert!(is_known(0) && is_known(holds - 1), "{said}");
            assert!(!is_known(holds + 1), "{said}");
        }
    }
}
