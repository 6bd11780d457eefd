use proptest::prelude::*;
use rookery_xml::Limits;

use super::framing::{self, Framed};
use super::*;

fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [9, 8, 7, 200];
    let mut frame = vec![first];
    match payload.len() {
        len @ ..126 => frame.push(0x80 | len as u8),
        len @ ..0x1_0000 => {
            frame.push(0x80 | 126);
            frame.extend((len as u16).to_be_bytes());
        }
        len => {
            frame.push(0x80 | 127);
            frame.extend((len as u64).to_be_bytes());
        }
    }
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// Returns the results of input in these pieces, some of which the connection keeps meanwhile.
fn pieces(pieces: &[&[u8]], most: usize) -> Result<Vec<KeptFrame>, FrameFault> {
    let (mut frames, mut found) = (Frames::default(), Vec::new());
    for piece in pieces {
        frames.keep(piece);
        while let Some(kept) = frames.next_kept(most)? {
            found.push(kept);
        }
    }
    assert!(frames.kept_bytes() < 14 + most.max(125));
    Ok(found)
}

fn fault(input: &[u8], most: usize) -> FrameFault {
    Frames::default().next(&mut input.to_vec(), most).expect_err("a fault")
}

#[test]
fn a_message_is_unmasked_where_it_lies() {
    for len in [0, 1, 3, 4, 15, 16, 17, 125, 126, 65_535, 65_536] {
        let payload: Vec<u8> = (0..len).map(|at| at as u8).collect();
        let mut input = frame(0x81, &payload);
        input.push(0x81);
        let mut frames = Frames::default();
        let (taken, found) = frames.next(&mut input, 100_000).unwrap().unwrap();
        assert_eq!((taken, found), (input_len(len), Frame::Message(Cow::Borrowed(payload.as_slice()))));
        assert!(frames.0.is_none(), "nothing is kept");
    }
}

fn input_len(payload: usize) -> usize {
    payload
        + 6
        + if payload > 65_535 {
            8
        } else if payload > 125 {
            2
        } else {
            0
        }
}

#[test]
fn fragments_make_one_message_and_control_frames_may_come_between() {
    let input =
        [frame(0x01, b"<a"), frame(0x89, b"hi"), frame(0x00, b""), frame(0x8a, b""), frame(0x80, b"/>")].concat();
    let found = pieces(&[&input], 4).unwrap();
    let message = KeptFrame::Message(b"<a/>".to_vec());
    assert_eq!(
        found,
        [KeptFrame::Nothing, KeptFrame::Ping(b"hi".to_vec()), KeptFrame::Nothing, KeptFrame::Nothing, message]
    );
    let input = [frame(0x01, b"<a"), frame(0x80, b"/>  ")].concat();
    assert_eq!(pieces(&[&input], 5), Err(FrameFault::TooBig));
}

#[test]
fn what_no_client_may_send_is_a_fault() {
    let unmasked = [0x81, 0x02, b'h', b'i'];
    assert_eq!(fault(&unmasked, 100), FrameFault::Protocol);
    assert_eq!(fault(&frame(0x80, b"x"), 100), FrameFault::Protocol, "a continuation of nothing");
    assert_eq!(fault(&frame(0xc1, b"x"), 100), FrameFault::Protocol, "a reserved bit");
    assert_eq!(fault(&frame(0x83, b"x"), 100), FrameFault::Protocol, "an opcode that nobody knows");
    assert_eq!(fault(&frame(0x09, b"x"), 100), FrameFault::Protocol, "a ping in fragments");
    assert_eq!(fault(&frame(0x89, &[0; 126]), 1000), FrameFault::Protocol, "a long ping");
    assert_eq!(fault(&frame(0x82, b"x"), 100), FrameFault::Unsupported, "bytes");
    assert_eq!(fault(&frame(0x88, b"x"), 100), FrameFault::Protocol, "half a status");
    assert_eq!(fault(&frame(0x88, &1005u16.to_be_bytes()), 100), FrameFault::Protocol, "a status that isn't sent");
    let wasteful = [0x81, 0x80 | 126, 0, 5, 0, 0, 0, 0, 1, 2, 3, 4, 5];
    assert_eq!(fault(&wasteful, 100), FrameFault::Protocol);
    let begun_twice = [frame(0x01, b"a"), frame(0x81, b"b")].concat();
    assert_eq!(pieces(&[&begun_twice], 100), Err(FrameFault::Protocol));
}

#[test]
fn a_long_message_is_refused_by_its_head() {
    let mut head = vec![0x81, 0x80 | 127];
    head.extend((40u64 << 20).to_be_bytes());
    head.extend([0; 4]);
    assert_eq!(fault(&head, 10_000), FrameFault::TooBig);
    head[2] = 0x80;
    assert_eq!(fault(&head, 10_000), FrameFault::Protocol);
}

#[test]
fn the_closing_handshake_is_answered_and_says_why() {
    assert_eq!(pieces(&[&frame(0x88, b"")], 10), Ok(vec![KeptFrame::Close(None)]));
    assert_eq!(pieces(&[&frame(0x88, b"\x03\xe8bye")], 10), Ok(vec![KeptFrame::Close(Some(1000))]));
    let (mut frames, mut out) = (Frames::default(), Vec::new());
    frames.close(&mut out);
    frames.set_status(FrameFault::TooBig.status());
    frames.close(&mut out);
    assert_eq!(out, [0x88, 2, 0x03, 0xe8, 0x88, 2, 0x03, 0xf1]);
    frames.owe_pong(b"first");
    frames.owe_pong(b"last");
    assert_eq!(frames.take_pong().as_deref(), Some(&b"\x8a\x04last"[..]));
    assert_eq!(frames.take_pong(), None);
}

#[test]
fn tags_of_the_stream_become_documents() {
    let mut said = Vec::new();
    let stream =
        b"<?xml version='1.0'?><stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' \
        id='7' from='example.org' xml:lang='en' version='1.0'><stream:features><bind xmlns='urn:x'/></stream:features>\
        <iq id='a' type='result'/><success xmlns='urn:y'/></stream:stream>";
    framing::write(stream, |message| said.push(String::from_utf8_lossy(message).into_owned()));
    assert_eq!(
        said,
        [
            "<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' from='example.org' id='7' version='1.0' xml:lang='en'/>",
            "<stream:features xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'><bind xmlns='urn:x'/>\
             </stream:features>",
            "<iq xmlns='jabber:client' id='a' type='result'/>",
            "<success xmlns='urn:y'/>",
            "<close xmlns='urn:ietf:params:xml:ns:xmpp-framing'/>",
        ]
    );
}

#[test]
fn a_message_is_one_element() {
    let read = |text: &str| framing::read(text.as_bytes(), &Limits::BEFORE_LOGIN);
    let open =
        read("<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' to='a&amp;b' version='1.0' xml:lang='de' x='y'/>");
    let header = b"<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' \
        to='a&amp;b' version='1.0' xml:lang='de'>";
    assert_eq!(open, Ok(Framed::Open(header.to_vec())));
    let close = read("<f:close xmlns:f='urn:ietf:params:xml:ns:xmpp-framing'></f:close>");
    assert_eq!(close, Ok(Framed::Close));
    assert_eq!(read("<open/>"), Ok(Framed::Element));
    assert_eq!(read(" <iq xmlns='jabber:client'/>\n"), Ok(Framed::Element));
    assert_eq!(read(" \n"), Ok(Framed::Nothing));
    for bad in ["<a/><b/>", "<a>", "a", "<a/>b", "</a>", "<stream:stream>"] {
        assert!(read(bad).is_err(), "{bad}");
    }
}

proptest! {
    /// However frames are cut on the way, the results are the same, and nothing grows or breaks,
    /// whatever the input.
    #[test]
    fn pieces_make_no_difference(
        frames in prop::collection::vec((any::<u8>(), prop::collection::vec(any::<u8>(), 0..200)), 0..8),
        noise in prop::collection::vec(any::<u8>(), 0..20),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let known = [0x81, 0x01, 0x00, 0x80, 0x89, 0x8a, 0x81, 0x01];
        let mut input: Vec<u8> = frames.iter().flat_map(|(kind, payload)| frame(known[usize::from(kind % 8)], payload)).collect();
        input.extend(noise);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(input.len() + 1)).collect();
        cuts.extend([0, input.len()]);
        cuts.sort_unstable();
        let cut: Vec<&[u8]> = cuts.windows(2).map(|pair| &input[pair[0]..pair[1]]).collect();
        prop_assert_eq!(pieces(&[&input], 300), pieces(&cut, 300));
    }
}
