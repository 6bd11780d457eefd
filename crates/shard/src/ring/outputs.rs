//! The output of one tick, which is sent at its end, for all sockets at once.

use std::ops::Range;

/// Bytes for sockets, by the places of those.
#[derive(Debug, Default)]
pub(super) struct TickOutputs {
    bytes: Vec<u8>,
    outputs: Vec<(u32, Range<usize>)>,
}

impl TickOutputs {
    /// Adds bytes for a socket. `at` is the output that the socket already has. Returns the output
    /// that now has the bytes; `None` if they don't fit.
    pub(super) fn add(&mut self, place: u32, at: u32, bytes: &[u8]) -> Option<u32> {
        if self.bytes.len() + bytes.len() > MOST_BYTES {
            return None;
        }
        let end = self.bytes.len() + bytes.len();
        if at == NO_OUTPUT {
            if self.outputs.len() >= MOST_OUTPUTS {
                return None;
            }
            self.outputs.push((place, self.bytes.len()..end));
        } else {
            // Only the last output can grow.
            let is_last = at as usize + 1 == self.outputs.len();
            let (_, range) = self.outputs.get_mut(at as usize).filter(|_| is_last)?;
            if range.len() + bytes.len() > MOST_OF_ONE {
                return None;
            }
            range.end = end;
        }
        self.bytes.extend_from_slice(bytes);
        Some(self.outputs.len() as u32 - 1)
    }

    /// Returns whether a number of bytes is small enough to wait here.
    pub(super) fn takes(bytes: &[u8]) -> bool {
        bytes.len() <= MOST_OF_ONE
    }

    /// Returns the number of outputs.
    pub(super) fn len(&self) -> usize {
        self.outputs.len()
    }

    /// Returns all outputs, each with the place of its socket.
    pub(super) fn all(&self) -> impl ExactSizeIterator<Item = (u32, &[u8])> {
        self.outputs.iter().map(|(place, range)| (*place, self.bytes.get(range.clone()).unwrap_or_default()))
    }

    /// Takes an output, which is empty from now on and won't be sent from here.
    pub(super) fn take(&mut self, at: u32) -> Vec<u8> {
        let Some((_, range)) = self.outputs.get_mut(at as usize) else { return Vec::new() };
        let bytes = self.bytes.get(range.clone()).unwrap_or_default().to_vec();
        range.end = range.start;
        bytes
    }

    /// Forgets all outputs, and frees most of the memory.
    pub(super) fn clear(&mut self) {
        self.outputs.clear();
        self.outputs.shrink_to(KEPT_OUTPUTS);
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
    }
}

/// The value that stands for no output.
pub(super) const NO_OUTPUT: u32 = u32::MAX;
/// Bytes of one output: longer ones are sent at once, without a copy. It is also the most for which
/// a socket may wait until the system has room.
const MOST_OF_ONE: usize = 8 * 1024;
/// Bytes and outputs that wait for the end of a tick.
const MOST_BYTES: usize = 512 * 1024;
const MOST_OUTPUTS: usize = 1024;
/// Bytes and outputs for which memory is kept.
const KEPT_BYTES: usize = 128 * 1024;
const KEPT_OUTPUTS: usize = 256;
