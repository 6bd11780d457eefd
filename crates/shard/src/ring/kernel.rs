//! The kernel's side of the ring: operations, completions, and the buffers that the kernel fills.
//!
//! All `unsafe` of this crate is here. [`KernelRing`] is safe to use in any way: a wrong number of
//! a descriptor costs an error of the system, and never memory. Every block relies on these rules:
//! - Memory that the kernel may write to at any time, the shared buffers and the table that lists
//!   them, belongs to a [`SharedBuffers`], is only touched through raw pointers, and is freed after
//!   the ring is closed and no receive is left.
//! - A buffer is either the kernel's or a [`TakenBuffer`]'s. The kernel gives each out once, by the
//!   completion that names it; [`KernelRing::give_back`] takes the token. So nobody reads what the
//!   kernel writes.
//! - Bytes to send are borrowed for a call that returns when the kernel has done with all of them.
#![allow(unsafe_code, reason = "the kernel shares memory with the process, which the compiler can't see")]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use io_uring::squeue::Entry;
use io_uring::types::{BufRingEntry, Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown};

/// A completion.
#[derive(Debug)]
pub(super) struct RingEvent {
    /// The number of the operation.
    pub(super) data: u64,
    /// A count or events, or an error of the system.
    pub(super) result: Result<u32, Errno>,
    /// The received bytes.
    pub(super) buffer: Option<TakenBuffer>,
    /// True if the operation goes on, and will have other completions.
    pub(super) goes_on: bool,
}

/// A shared buffer that the kernel has filled, until it is given back.
#[derive(Debug)]
pub(super) struct TakenBuffer {
    id: u16,
    len: usize,
}

/// A ring, which only one thread may use: the one that enables it.
pub(super) struct KernelRing {
    ring: IoUring,
    buffers: SharedBuffers,
    /// Completions that were found among those of sends.
    set_aside: VecDeque<RingEvent>,
    is_enabled: bool,
    /// True if the kernel has refused an entry, with sends in the queue: the ring must not be
    /// entered any more.
    is_broken: bool,
    /// The number of receives for which the kernel may still write.
    receives: usize,
}

/// The buffers from which the kernel picks, and the table that lists them for it.
struct SharedBuffers {
    table: *mut BufRingEntry,
    memory: *mut u8,
    /// The place after the last buffer that the kernel was given.
    tail: u16,
}

// SAFETY: the memory belongs to this value alone, and no thread but that of its owner goes by the
// pointers.
unsafe impl Send for SharedBuffers {}

impl SharedBuffers {
    fn new() -> Self {
        // SAFETY: the layout has a size.
        let table = unsafe { alloc_zeroed(TABLE) };
        // SAFETY: the layout has a size.
        let memory = unsafe { alloc_zeroed(MEMORY) };
        if table.is_null() || memory.is_null() {
            handle_alloc_error(MEMORY);
        }
        Self { table: table.cast(), memory, tail: 0 }
    }

    /// Lists a buffer after those that the kernel has; the kernel may take it once the table is
    /// published.
    fn list(&mut self, id: u16) {
        let place = usize::from(self.tail % BUFFERS);
        // SAFETY: the table has so many entries.
        let entry = unsafe { self.table.add(place) };
        // SAFETY: the kernel reads an entry only once the tail is past it, so nobody else uses this
        // one, and it writes none. It is aligned and initialised: the table was zeroed.
        let entry = unsafe { &mut *entry };
        // SAFETY: the memory has so many buffers.
        let start = unsafe { self.memory.add(usize::from(id % BUFFERS) * BUFFER_BYTES) };
        entry.set_addr(start as u64);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&self) {
        // SAFETY: the address is that of the first entry, which is initialised: it was zeroed.
        let tail = unsafe { BufRingEntry::tail(self.table) };
        // SAFETY: the tail is aligned, lives as long as the table, and is only written here; the
        // kernel reads it while we write, hence the atomic.
        let tail = unsafe { AtomicU16::from_ptr(tail.cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }
}

impl Drop for SharedBuffers {
    fn drop(&mut self) {
        if self.table.is_null() {
            return;
        }
        // SAFETY: it was allocated with this layout, and is freed once.
        unsafe { dealloc(self.table.cast(), TABLE) };
        // SAFETY: as above.
        unsafe { dealloc(self.memory, MEMORY) };
    }
}

impl KernelRing {
    /// Makes a ring, for whichever thread enters it first.
    ///
    /// # Errors
    /// The error of a system that has no such rings, or forbids them.
    pub(super) fn new() -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_coop_taskrun()
            .setup_submit_all()
            .setup_r_disabled()
            .setup_cqsize(COMPLETIONS)
            .build(SUBMISSIONS)?;
        let mut buffers = SharedBuffers::new();
        let table = buffers.table as u64;
        // SAFETY: the table is page-aligned and has so many entries. It outlives the ring: fields
        // are dropped in their order, and `Drop` waits for the operations.
        unsafe { ring.submitter().register_buf_ring_with_flags(table, BUFFERS, GROUP, 0)? };
        (0..BUFFERS).for_each(|id| buffers.list(id));
        buffers.publish();
        Ok(Self { ring, buffers, set_aside: VecDeque::new(), is_enabled: false, is_broken: false, receives: 0 })
    }

    /// Queues an operation. Returns `false` if the queue is full and the kernel doesn't take its
    /// operations.
    fn push(&mut self, entry: &Entry) -> bool {
        loop {
            // SAFETY: the operations of this file refer to no memory but that of the shared
            // buffers, and sends to bytes that are borrowed until they are done.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return true;
            }
            // The queue is full: the kernel takes all of it.
            if self.enter(0, None).is_err() {
                return false;
            }
        }
    }

    /// Queues a receive that continues until it is cancelled, fails, or finds no buffer. A result
    /// of 0 means the end of the input.
    pub(super) fn receive(&mut self, socket: RawFd, data: u64) {
        let is_queued = self.push(&opcode::RecvMulti::new(Fd(socket), GROUP).build().user_data(data));
        self.receives += usize::from(is_queued);
    }

    /// Queues a wait for one of these events, once (if one is there already, it completes at once)
    /// or for each time that one begins.
    pub(super) fn poll(&mut self, descriptor: RawFd, events: PollFlags, is_repeated: bool, data: u64) {
        let events = u32::from(events.bits());
        self.push(&opcode::PollAdd::new(Fd(descriptor), events).multi(is_repeated).build().user_data(data));
    }

    /// Queues the end of the operation with this number, which completes that operation.
    pub(super) fn cancel(&mut self, data: u64) {
        self.push(&opcode::AsyncCancel::new(data).build().user_data(OF_NOBODY));
    }

    /// Sends to many sockets at once, to each as much as fits. Pushes for each the bytes that the
    /// system has taken, or its error.
    pub(super) fn send_all<'a>(
        &mut self,
        sends: impl ExactSizeIterator<Item = (RawFd, &'a [u8])>,
        results: &mut Vec<Result<usize, Errno>>,
    ) {
        let begin = results.len();
        results.resize(begin + sends.len(), Err(Errno::AGAIN));
        let (mut at, mut left) = (begin, 0);
        for (socket, bytes) in sends {
            let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            let flags = (SendFlags::DONTWAIT | SendFlags::NOSIGNAL).bits() as i32;
            let send = opcode::Send::new(Fd(socket), bytes.as_ptr(), len).flags(flags);
            left += usize::from(self.push(&send.build().user_data(OF_SENDS + at as u64)));
            at += 1;
            if left == SUBMISSIONS as usize {
                self.finish_sends(left, results);
                left = 0;
            }
        }
        self.finish_sends(left, results);
    }

    /// Waits for this number of sends. They never wait for room, so they are done when the kernel
    /// has looked at them.
    fn finish_sends(&mut self, mut left: usize, results: &mut [Result<usize, Errno>]) {
        // The first attempt needn't run the work of other operations.
        let mut entered = if left > 0 { self.submit() } else { Ok(()) };
        while left > 0 {
            while let Some(event) = self.completion() {
                match event.data.checked_sub(OF_SENDS).filter(|_| event.data < OF_NOBODY) {
                    Some(at) => {
                        left -= 1;
                        if let Some(result) = results.get_mut(at as usize) {
                            *result = event.result.map(|sent| sent as usize);
                        }
                    }
                    None => self.set_aside.push_back(event),
                }
            }
            if left > 0 {
                // Queued sends must never be submitted once the bytes are gone.
                self.is_broken = entered.is_err();
                assert!(!self.is_broken, "the kernel refuses the ring: {entered:?}");
                entered = self.enter(1, Some(Duration::from_millis(10)));
            }
        }
    }

    fn submit(&mut self) -> io::Result<()> {
        self.enable()?;
        match self.ring.submit() {
            Err(error) if !is_passing(&error) => Err(error),
            _ => Ok(()),
        }
    }

    fn enable(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_enabled, true) {
            self.ring.submitter().register_enable_rings()?;
        }
        Ok(())
    }

    /// Submits what is queued, and waits for this number of completions or for the time (`None`:
    /// for ever).
    ///
    /// # Errors
    /// The error of the system; an interrupted wait, and one whose time is over, are no errors.
    pub(super) fn enter(&mut self, completions: usize, timeout: Option<Duration>) -> io::Result<()> {
        self.enable()?;
        // Otherwise an idle shard would count as waiting for disks.
        let quiet = self.ring.params().is_feature_no_iowait();
        let flags = if quiet { EnterFlags::NO_IOWAIT } else { EnterFlags::empty() };
        let entered = match timeout {
            _ if completions == 0 => {
                let queued = self.ring.submission().len() as u32;
                // SAFETY: no argument is passed by address.
                unsafe { self.ring.submitter().enter::<()>(queued, 0, EnterFlags::GETEVENTS.bits(), None) }
            }
            None => self.ring.submitter().submit_with_args_and_flags(completions, &SubmitArgs::new(), flags),
            Some(timeout) => {
                let timeout = Timespec::from(timeout);
                let arguments = SubmitArgs::new().timespec(&timeout);
                self.ring.submitter().submit_with_args_and_flags(completions, &arguments, flags)
            }
        };
        match entered {
            Err(error) if !is_passing(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the number of completions that wait to be taken.
    pub(super) fn waiting(&mut self) -> usize {
        self.set_aside.len() + self.ring.completion().len()
    }

    /// Takes a completion.
    pub(super) fn next_event(&mut self) -> Option<RingEvent> {
        self.set_aside.pop_front().or_else(|| self.completion())
    }

    fn completion(&mut self) -> Option<RingEvent> {
        let entry = self.ring.completion().next()?;
        let result = match entry.result() {
            error if error < 0 => Err(Errno::from_raw_os_error(-error)),
            count => Ok(count as u32),
        };
        let id = cqueue::buffer_select(entry.flags()).filter(|id| *id < BUFFERS);
        let len = result.map_or(0, |len| len as usize).min(BUFFER_BYTES);
        let buffer = id.map(|id| TakenBuffer { id, len });
        Some(RingEvent { data: entry.user_data(), result, buffer, goes_on: cqueue::more(entry.flags()) })
    }

    /// Notes that a receive has had its last completion.
    pub(super) fn receive_ended(&mut self) {
        self.receives = self.receives.saturating_sub(1);
    }

    /// Returns the bytes of a buffer.
    pub(super) fn bytes<'a>(&'a self, buffer: &'a TakenBuffer) -> &'a [u8] {
        // SAFETY: the memory has so many buffers.
        let start = unsafe { self.buffers.memory.add(usize::from(buffer.id) * BUFFER_BYTES) };
        // SAFETY: the bytes are initialised, and the kernel has let go of the buffer until the
        // token is given back, for which it must not be borrowed.
        unsafe { std::slice::from_raw_parts(start, buffer.len) }
    }

    /// Gives a buffer back to the kernel.
    pub(super) fn give_back(&mut self, buffer: TakenBuffer) {
        self.buffers.list(buffer.id);
        self.buffers.publish();
    }
}

impl Drop for KernelRing {
    fn drop(&mut self) {
        if self.is_enabled && !self.is_broken && self.receives > 0 {
            let all = io_uring::types::CancelBuilder::any();
            let _ = self.ring.submitter().register_sync_cancel(None, all);
            for _ in 0..LAST_LOOKS {
                while let Some(event) = self.next_event() {
                    let is_receive = event.data & OF_RECEIVES != 0 && event.data < OF_SENDS;
                    self.receives -= usize::from(is_receive && !event.goes_on && self.receives > 0);
                }
                if self.receives == 0 || self.enter(1, Some(Duration::from_millis(10))).is_err() {
                    break;
                }
            }
        }
        if self.receives > 0 && self.is_enabled {
            // The kernel may still write to the buffers: they stay.
            let never = SharedBuffers { table: ptr::null_mut(), memory: ptr::null_mut(), tail: 0 };
            std::mem::forget(std::mem::replace(&mut self.buffers, never));
        }
    }
}

/// Sends without the ring, as much as fits.
///
/// # Errors
/// `WouldBlock`, or the system's error for a broken connection.
pub(super) fn send_now(socket: RawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: callers give the number of a socket that they watch, which is open.
    let socket = unsafe { BorrowedFd::borrow_raw(socket) };
    loop {
        match rustix::net::send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            sent => return Ok(sent?),
        }
    }
}

/// Ends our direction of a connection.
pub(super) fn end_now(socket: RawFd) {
    // SAFETY: callers give the number of a socket that they watch, which is open.
    let socket = unsafe { BorrowedFd::borrow_raw(socket) };
    let _ = rustix::net::shutdown(socket, Shutdown::Write);
}

/// Returns whether to continue after an error of an entry: the time was over, it was interrupted,
/// or completions have to be taken first.
fn is_passing(error: &io::Error) -> bool {
    let passing = [Errno::TIME, Errno::INTR, Errno::BUSY, Errno::AGAIN];
    error.kind() == ErrorKind::Interrupted
        || error.raw_os_error().is_some_and(|code| passing.iter().any(|errno| errno.raw_os_error() == code))
}

/// The bit of the numbers of receives.
pub(super) const OF_RECEIVES: u64 = 1 << 61;
/// The numbers of sends begin here; all others but the next one are below.
pub(super) const OF_SENDS: u64 = 1 << 62;
/// The number of operations whose completions are ignored.
pub(super) const OF_NOBODY: u64 = u64::MAX;
/// The shared buffers; a power of two.
const BUFFERS: u16 = 512;
/// The size of each buffer in bytes: no single receive yields more.
pub(super) const BUFFER_BYTES: usize = 4096;
const GROUP: u16 = 0;
const SUBMISSIONS: u32 = 256;
const COMPLETIONS: u32 = 4096;
/// Waits of 10 ms for operations that were cancelled, when a ring ends.
const LAST_LOOKS: usize = 100;

const TABLE: Layout = page_aligned(BUFFERS as usize * size_of::<BufRingEntry>());
const MEMORY: Layout = page_aligned(BUFFERS as usize * BUFFER_BYTES);

const fn page_aligned(bytes: usize) -> Layout {
    match Layout::from_size_align(bytes, 4096) {
        Ok(layout) => layout,
        Err(_) => panic!("a page is a power of two"),
    }
}
