//! Measures what a stanza costs on the hot path, in time and allocations: `cargo bench -p
//! rookery-xml`.

use divan::counter::BytesCount;
use divan::{AllocProfiler, Bencher, black_box};
use rookery_xml::{Element, Limits, Scan, Scanner, Writer};

#[path = "../tests/differential/seeds.rs"]
#[allow(dead_code, reason = "the differential test uses more of them")]
mod seeds;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

fn scan(bencher: Bencher<'_, '_>, stanza: &str) {
    let mut scanner = Scanner::new();
    bencher.counter(BytesCount::of_str(stanza)).bench_local(|| {
        match scanner.scan(black_box(stanza.as_bytes()), &Limits::AFTER_LOGIN) {
            Ok(Scan::Stanza(len)) => len,
            other => panic!("{other:?}"),
        }
    });
}

#[divan::bench(sample_size = 256)]
fn chat_288(bencher: Bencher<'_, '_>) {
    assert_eq!(seeds::CHAT.len(), 288);
    scan(bencher, seeds::CHAT);
}

/// Measures the same, and the reading of what routing needs.
#[divan::bench(sample_size = 256)]
fn chat_288_and_view(bencher: Bencher<'_, '_>) {
    let mut scanner = Scanner::new();
    let buf = seeds::CHAT.as_bytes();
    bencher.bench_local(|| {
        let scan = scanner.scan(black_box(buf), &Limits::AFTER_LOGIN);
        let stanza = scanner.stanza(buf);
        let child = stanza.first_child().map(|child| child.name().len() + child.ns().len());
        let to = stanza.to().and_then(|to| rookery_jid::JidRef::parse_prepared(&to).map(|jid| jid.bare_str().len()));
        (scan, stanza.kind(), stanza.type_().map(|type_| type_.len()), to, child)
    });
}

#[divan::bench(sample_size = 256)]
fn muc_presence(bencher: Bencher<'_, '_>) {
    scan(bencher, seeds::MUC_PRESENCE);
}

#[divan::bench(sample_size = 256)]
fn omemo_2245(bencher: Bencher<'_, '_>) {
    assert_eq!(seeds::omemo().len(), 2245);
    scan(bencher, &seeds::omemo());
}

#[divan::bench(sample_size = 256)]
fn non_ascii(bencher: Bencher<'_, '_>) {
    scan(bencher, seeds::NON_ASCII);
}

#[divan::bench(sample_size = 256)]
fn jid_prepare(bencher: Bencher<'_, '_>) {
    let raw = "romeo@montague.example/orchard-7f3a";
    bencher.bench_local(|| rookery_jid::prepare(black_box(raw)).is_ok());
}

#[divan::bench(sample_size = 256)]
fn jid_prepare_non_ascii(bencher: Bencher<'_, '_>) {
    let raw = "ромео@монтекки.example/сад";
    bencher.bench_local(|| rookery_jid::prepare(black_box(raw)).is_ok());
}

#[divan::bench(sample_size = 256)]
fn canonical_chat(bencher: Bencher<'_, '_>) {
    let mut scanner = Scanner::new();
    let buf = seeds::CHAT.as_bytes();
    assert!(scanner.scan(buf, &Limits::AFTER_LOGIN).is_ok());
    let stanza = scanner.stanza(buf);
    bencher.bench_local(|| black_box(stanza).canonical(Some("juliet@capulet.example/balcony-19c2"), None));
}

#[divan::bench(sample_size = 256)]
fn element_of_roster(bencher: Bencher<'_, '_>) {
    bencher.bench_local(|| Element::parse(black_box(seeds::ROSTER.as_bytes())));
}

#[divan::bench(sample_size = 256)]
fn write_error_reply(bencher: Bencher<'_, '_>) {
    bencher.bench_local(|| {
        let mut writer = Writer::new("iq");
        writer.attr("type", "error").attr("id", black_box("x1")).attr("to", "a@b.example/c");
        writer.start("error").attr("type", "cancel");
        writer.start_ns("service-unavailable", rookery_xml::ns::STANZA_ERRORS);
        writer.finish()
    });
}
