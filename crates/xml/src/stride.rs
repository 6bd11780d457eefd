//! Many bytes at a time, in safe code: runs of harmless ASCII are skipped 8 or 32 at a time, and
//! names are mostly found within one word.
//!
//! A word is eight bytes, the first one lowest. The tests on it set the high bit of each matching
//! byte, and may do so in error only above the lowest match, or beyond ASCII. A caller that stops
//! at the lowest bit, and at anything beyond ASCII, isn't misled.

/// Returns the end of a name of up to seven lower-case letters and nothing else, as nearly all
/// names in stanzas are.
#[inline(always)]
pub(crate) fn plain_name(buf: &[u8], start: usize) -> Option<usize> {
    let word = word(buf, start)?;
    let len = not_lower_case(word);
    let behind = (word >> (8 * (len & 7))) as u8;
    (matches!(len, 1..=7) && matches!(behind, b'=' | b'>' | b' ' | b'/')).then_some(start + len)
}

/// Moves the cursor over plain text, if it isn't at the end of the buffer.
#[inline(always)]
pub(crate) fn skip_plain_text(buf: &[u8], cursor: &mut usize) {
    // Text between tags is often short, so that the long strides come second.
    if !skip_word(buf, cursor) {
        return;
    }
    *cursor = skip_long_text(buf, *cursor);
    while skip_word(buf, cursor) {}
}

/// Moves the cursor over plain bytes of an attribute value, if it isn't at the end of the buffer.
#[inline(always)]
pub(crate) fn skip_plain_value(buf: &[u8], cursor: &mut usize) {
    while let Some(word) = word(buf, *cursor) {
        // The quotes and `&` are below `(`, with a few others that seldom occur in values.
        let stop = (below(b'(', word) | at(b'<', word) | word) & HIGH;
        if stop != 0 {
            *cursor += lowest(stop);
            return;
        }
        *cursor += 8;
    }
}

/// Moves the cursor over plain bytes of a CDATA section.
#[inline(always)]
pub(crate) fn skip_plain_cdata(buf: &[u8], cursor: &mut usize) {
    while let Some(word) = word(buf, *cursor) {
        let stop = (at(b']', word) | below(b' ', word) | word) & HIGH;
        if stop != 0 {
            *cursor += lowest(stop);
            return;
        }
        *cursor += 8;
    }
}

/// Moves the cursor to the first byte of eight that needs a closer look; if there is none, over all
/// of them, and returns `true`.
#[inline(always)]
fn skip_word(buf: &[u8], cursor: &mut usize) -> bool {
    let Some(word) = word(buf, *cursor) else { return false };
    // `<` and `>` differ in one bit, which is set on both.
    let stop = (at(b'>', word | (LOW * 2)) | at(b'&', word) | below(b' ', word) | word) & HIGH;
    *cursor += if stop == 0 { 8 } else { lowest(stop) };
    stop == 0
}

/// Skips 32 bytes at a time while none of them needs a closer look. The loop is written so that it
/// becomes vector code.
#[inline(never)]
fn skip_long_text(buf: &[u8], mut at: usize) -> usize {
    while let Some(chunk) = buf.get(at..).and_then(|rest| rest.first_chunk::<32>()) {
        let mut stop = 0;
        for &b in chunk {
            // As signed numbers, control bytes and bytes beyond ASCII are both below the space.
            stop |= u8::from((b as i8) < 0x20) | u8::from(b | 2 == b'>') | u8::from(b == b'&');
        }
        if stop != 0 {
            break;
        }
        at += 32;
    }
    at
}

/// Returns eight bytes from `at`, the first one lowest.
#[inline(always)]
fn word(buf: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*buf.get(at..)?.first_chunk::<8>()?))
}

/// Sets the high bit of each byte that equals `b`.
#[inline(always)]
fn at(b: u8, word: u64) -> u64 {
    (word ^ (LOW * u64::from(b))).wrapping_sub(LOW)
}

/// Returns the same for each byte below `b`.
#[inline(always)]
fn below(b: u8, word: u64) -> u64 {
    word.wrapping_sub(LOW * u64::from(b))
}

/// Returns the number of bytes before the first one that isn't a lower-case letter.
#[inline(always)]
fn not_lower_case(word: u64) -> usize {
    let from_a = (word | HIGH).wrapping_sub(LOW * u64::from(b'a'));
    let beyond_z = (word & !HIGH) + LOW * u64::from(0x7F - b'z');
    let others = (!from_a | beyond_z | word) & HIGH;
    lowest(others)
}

/// Returns the index of the byte with the lowest high bit set, 8 if none has.
#[inline(always)]
fn lowest(bits: u64) -> usize {
    (bits.trailing_zeros() / 8) as usize
}

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;
