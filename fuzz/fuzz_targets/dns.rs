//! Answers of DNS: whatever an answer says, the targets that are tried are bounded, in order, and
//! none of them is "no server"; and the certificates that it names are few.

#![no_main]

use hickory_resolver::proto::op::Message;
use libfuzzer_sys::fuzz_target;
use rookery_federation::targets::{TargetPlan, interleave, plan};
use rookery_resolver::{addresses, associations, targets};
use rookery_stream::tls::trust::tlsa::Associations;

fuzz_target!(|input: (u32, &[u8], &[u8])| {
    let (seed, one, other) = input;
    let [direct, starttls] = [one, other].map(|bytes| Message::from_vec(bytes).ok());
    // The query is for the name that the answer is about: it has nothing for other names.
    let asked = |message: &Message| message.queries.first().map(|query| query.name().clone()).unwrap_or_default();
    let read = |message: &Option<Message>, direct_tls| {
        message.as_ref().map(|message| targets(&asked(message), &message.answers, direct_tls))
    };
    let mut state = seed;
    let draw = |most: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.checked_rem(most.saturating_add(1)).unwrap_or_default()
    };
    if let TargetPlan::Targets(planned) = plan(read(&direct, true), read(&starttls, false), draw) {
        assert!(!planned.is_empty() && planned.len() <= 20);
        assert!(planned.is_sorted_by_key(|target| target.priority));
        assert!(planned.iter().all(|target| !matches!(target.host.as_str(), "" | ".")));
    }
    let found = direct.iter().chain(&starttls).flat_map(|message| addresses(&asked(message), &message.answers));
    assert!(interleave(found).len() <= 10);
    for message in direct.iter().chain(&starttls) {
        let records = associations(&asked(message), &message.answers);
        let found = Associations::new("a.example", "a.example", 5269, records);
        assert!(found.is_none_or(|found| (1..=32).contains(&found.iter().count())));
    }
});
