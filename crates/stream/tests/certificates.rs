//! Tests randomly damaged certificates: none breaks anything, no altered one is trusted, and the
//! names in them are names of hosts.
//!
//! The fuzz target `certificates` does the same with a compiler that knows which bytes matter. This
//! test needs no such compiler, and starts with certificates that are good.

use rookery_stream::tls::certificate::Authority;
use rookery_stream::tls::trust::{Names, Trust};

const NOW: u64 = 1_800_000_000;

/// Draws numbers from a seed.
struct CertificateDraw(u64);

impl CertificateDraw {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most.max(1)
    }

    /// Flips some bits, or cuts or doubles some bytes.
    fn damage(&mut self, whole: &[u8]) -> Vec<u8> {
        let mut bytes = whole.to_vec();
        for _ in 0..=self.below(3) {
            if bytes.is_empty() {
                break;
            }
            let from = self.below(bytes.len());
            let until = (from + self.below(40)).min(bytes.len());
            match self.below(6) {
                0 => _ = bytes.drain(from..until),
                1 => {
                    let copy = bytes[from..until].to_vec();
                    bytes.splice(from..from, copy);
                }
                _ => bytes[from] ^= 1 << self.below(8),
            }
        }
        bytes
    }
}

#[test]
fn a_damaged_certificate_proves_nothing_and_breaks_nothing() {
    let authority = Authority::new(NOW).expect("an authority");
    let names = ["a.example", "*.b.example", "xn--bcher-kva.example"].map(str::to_owned);
    let issued = authority.issue(&names, NOW).expect("a certificate");
    let chain = Trust::read_pem(issued.chain.as_bytes()).expect("a chain");
    let own = chain.first().expect("a certificate");
    let trust = Trust::new([authority.der().to_vec()]);
    assert!(trust.judge(&[own], NOW).expect("it is good").cover("a.example"));
    let mut draw = CertificateDraw(1);
    let mut read = 0;
    for _ in 0..20_000 {
        let damaged = draw.damage(own);
        assert!(damaged == *own || trust.judge(&[&damaged], NOW).is_err());
        // A certificate that an operator trusts, or an intermediate one, can be damaged, too.
        let between = draw.damage(authority.der());
        assert!(Trust::new([]).judge(&[own, &between], NOW).is_err());
        if draw.below(10) == 0 {
            _ = Trust::new([between.clone()]).judge(&[own, &between], NOW);
        }
        let Some(names) = Names::read_claims(&damaged) else { continue };
        read += 1;
        for name in names.all() {
            let is_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'*');
            assert!(!name.is_empty() && name.len() <= 255 && name.bytes().all(is_host), "{name:?}");
        }
        for domain in ["example", "", "a.example\0", "a..example", "*.a.example"] {
            assert!(!names.cover(domain) || names.all().any(|name| name == domain), "{domain:?}");
        }
    }
    assert!(read > 1000, "some can still be read: {read}");
}
