//! Frames of a WebSocket: the pieces in which they arrive make no difference, and invalid frames
//! cause no panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rookery_stream::websocket::{FrameFault, Frames, KeptFrame, framing};
use rookery_xml::Limits;

fuzz_target!(|input: (u16, &[u8])| {
    let (split, bytes) = input;
    let split = usize::from(split).min(bytes.len());
    let whole = read(&[bytes]);
    assert_eq!(whole, read(&[&bytes[..split], &bytes[split..]]));
    for kept in whole.into_iter().flatten() {
        if let KeptFrame::Message(message) = kept {
            let _ = framing::read(&message, &Limits::BEFORE_LOGIN);
            framing::write(&message, |_| {});
        }
    }
});

fn read(pieces: &[&[u8]]) -> Result<Vec<KeptFrame>, FrameFault> {
    let (mut frames, mut found) = (Frames::default(), Vec::new());
    for piece in pieces {
        frames.keep(piece);
        while let Some(kept) = frames.next_kept(MOST)? {
            found.push(kept);
        }
        assert!(frames.kept_bytes() < MOST + 14);
    }
    Ok(found)
}

/// Bytes of a message.
const MOST: usize = 1000;
