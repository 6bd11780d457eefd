//! Tests randomly damaged DNS answers: whatever an answer contains, the number of targets to try is
//! bounded, they are in order, and none of them is "no server".
//!
//! The fuzz target `dns` does the same with a compiler that knows which bytes matter. This test
//! needs no such compiler, and starts with real answers.

use std::net::{Ipv4Addr, Ipv6Addr};

use hickory_resolver::proto::op::{Message, OpCode, Query};
use hickory_resolver::proto::rr::rdata::{A, AAAA, CNAME, NULL, SRV};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use rookery_federation::targets::{TargetPlan, interleave, plan};
use rookery_resolver::{addresses, associations, targets};
use rookery_stream::tls::trust::tlsa::Associations;

/// Draws numbers from a seed.
struct MutationDraw(u64);

impl MutationDraw {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most.max(1)
    }

    fn name(&mut self) -> Name {
        let names = [".", "a.example.", "_xmpp-server._tcp.a.example.", "x.a.example.", "evil.example."];
        Name::from_ascii(names[self.below(names.len())]).expect("a name")
    }

    fn data(&mut self) -> RData {
        match self.below(7) {
            6 => {
                let [usage, selector, matching] = [5, 3, 4].map(|most| self.below(most) as u8);
                let length = [32, 64, 31, 0][self.below(4)];
                let fields = [&[usage, selector, matching][..], &vec![0xab; length]].concat();
                RData::Unknown { code: RecordType::TLSA, rdata: NULL::with(fields) }
            }
            0 => RData::A(A(Ipv4Addr::from(self.below(usize::MAX) as u32))),
            1 => RData::AAAA(AAAA(Ipv6Addr::from(self.0 as u128))),
            2 => RData::CNAME(CNAME(self.name())),
            _ => {
                let [priority, weight, port] = [3, 70_000, 70_000].map(|most| self.below(most) as u16);
                RData::SRV(SRV::new(priority, weight, port, self.name()))
            }
        }
    }

    /// Returns an answer with some records, and some of its bits flipped.
    fn answer(&mut self) -> Vec<u8> {
        let mut message = Message::response(1, OpCode::Query);
        message.add_query(Query::query(self.name(), RecordType::SRV));
        for _ in 0..self.below(40) {
            let record = Record::from_rdata(self.name(), 60, self.data());
            message.add_answer(record);
        }
        let mut bytes = message.to_vec().expect("a message");
        for _ in 0..self.below(4) {
            let at = self.below(bytes.len());
            bytes[at] ^= 1 << self.below(8);
        }
        let len = if self.below(8) == 0 { self.below(bytes.len()) } else { bytes.len() };
        bytes.truncate(len);
        bytes
    }
}

#[test]
fn whatever_an_answer_says_few_targets_are_tried_in_their_order() {
    let mut draw = MutationDraw(1);
    let (mut read, mut planned_some, mut associated) = (0, 0, 0);
    for _ in 0..20_000 {
        let [direct, starttls] = [(); 2].map(|()| Message::from_vec(&draw.answer()).ok());
        read += usize::from(direct.is_some());
        let asked = |message: &Message| message.queries.first().map(|query| query.name().clone()).unwrap_or_default();
        let found = |message: &Option<Message>, direct_tls| {
            message.as_ref().map(|message| targets(&asked(message), &message.answers, direct_tls))
        };
        let chance = |most: u32| draw.below(most as usize + 1) as u32;
        if let TargetPlan::Targets(planned) = plan(found(&direct, true), found(&starttls, false), chance) {
            planned_some += 1;
            assert!(!planned.is_empty() && planned.len() <= 20);
            assert!(planned.is_sorted_by_key(|target| target.priority));
            assert!(planned.iter().all(|target| !matches!(target.host.as_str(), "" | ".")));
        }
        let all = direct.iter().chain(&starttls).flat_map(|message| addresses(&asked(message), &message.answers));
        assert!(interleave(all).len() <= 10);
        for message in direct.iter().chain(&starttls) {
            let records = associations(&asked(message), &message.answers);
            let found = Associations::new("a.example", "a.example", 5269, records);
            associated += usize::from(found.is_some());
            assert!(found.is_none_or(|found| (1..=32).contains(&found.iter().count())));
        }
    }
    assert!(associated > 1000, "certificates are named: {associated}");
    assert!(read > 10_000 && planned_some > 10_000, "the answers mean something: {read}, {planned_some}");
}
