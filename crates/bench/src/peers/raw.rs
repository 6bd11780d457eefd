//! The physical limit: the same traffic through sockets without XMPP. There are no stanzas,
//! addresses or queues: whole lines are read and written.
//!
//! For pairs it is the [`bare_relay`]; for multicast and presence, a server that writes each
//! incoming line to all other connections. Both run as separate processes, so that their CPU time
//! is read like a server's, and a generator with one thread plays against them.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::str::FromStr;
use std::time::{Duration, Instant};

use rookery_shard::SystemInterface;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};

use super::child::tied_command;
use super::program;
use crate::engine::{LatencyHistogram, LatencyRecorder};
use crate::process::{Cpu, median_and_min};
use crate::result::{self, DONE, RunResult, SweepPoint};
use crate::{BenchOutcome, bare_relay, chat};

/// The kind of a server without XMPP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RawKind {
    /// Passes lines on within each of this number of pairs.
    Relay(usize),
    /// Writes each line to all connections, this number of them, except the one that it came from.
    FanOut(usize),
}

/// The load of the generator.
#[derive(Debug, Clone, Copy)]
pub(super) enum RawLoad {
    /// Pairs in a closed loop, for this many seconds.
    Chat { pairs: usize, window: usize, seconds: f64 },
    /// One line to more and more receivers, for this many seconds each.
    Multicast { from: usize, to: usize, step: usize, seconds: f64 },
    /// All users write lines to all others in an open loop, for presence and rooms: this many
    /// bytes, at this interval.
    Everybody { users: usize, every: f64, seconds: f64, bytes: usize },
}

impl FromStr for RawKind {
    type Err = String;

    fn from_str(text: &str) -> Result<RawKind, String> {
        let (kind, number) = text.split_once(':').ok_or("KIND:NUMBER is wanted")?;
        let number = number.parse().map_err(|_| format!("{number} isn't a number"))?;
        match kind {
            "relay" => Ok(RawKind::Relay(number)),
            "fan-out" => Ok(RawKind::FanOut(number)),
            other => Err(format!("there is no {other}")),
        }
    }
}

impl std::fmt::Display for RawKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RawKind::Relay(pairs) => write!(f, "relay:{pairs}"),
            RawKind::FanOut(connections) => write!(f, "fan-out:{connections}"),
        }
    }
}

/// Serves as such a server: prints its address, and returns when a connection is closed.
///
/// # Errors
/// The error of the system.
pub fn serve(kind: RawKind) -> BenchOutcome<()> {
    match kind {
        RawKind::Relay(pairs) => bare_relay::run(pairs, SystemInterface::Epoll),
        RawKind::FanOut(connections) => {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            println!("{}", listener.local_addr()?);
            fan_out(&listener, connections)
        }
    }
}

/// Measures the limit of a load that has one.
///
/// # Errors
/// The error of the system.
pub(super) fn measure(load: &program::ProgramLoad) -> BenchOutcome<RunResult> {
    let mut result = load.nothing(DONE);
    result.version = Some("sockets without XMPP".to_owned());
    match load.raw.ok_or("this load has no raw limit")? {
        RawLoad::Chat { pairs, window, seconds } => {
            let server = RawProcess::start(RawKind::Relay(pairs))?;
            play(&mut result, &server, pairs, window, Duration::from_secs_f64(seconds))?;
        }
        RawLoad::Everybody { users, every, seconds, bytes } => {
            let server = RawProcess::start(RawKind::FanOut(users))?;
            let apart = Duration::from_secs_f64(every / users.max(1) as f64);
            everybody(&mut result, &server, users, (apart, Duration::from_secs_f64(seconds)), &line(bytes))?;
        }
        RawLoad::Multicast { from, to, step, seconds } => {
            let begun = Instant::now();
            for receivers in (from.max(1)..=to).step_by(step.max(1)) {
                // A visible header grows with the number of receivers, so the lines do, too.
                for (curve, length) in [("bcc", chat::BYTES), ("to", chat::BYTES + receivers * ADDRESS_BYTES)] {
                    let server = RawProcess::start(RawKind::FanOut(receivers + 1))?;
                    result.parts.push(point(&server, receivers, Duration::from_secs_f64(seconds), curve, length)?);
                }
            }
            result.seconds = begun.elapsed().as_secs_f64();
            result.delivered = result.parts.iter().map(|part| part.delivered).sum();
            result.expected = result.delivered;
            result.throughput = None;
            let single = |part: &SweepPoint| SweepPoint {
                curve: "single".into(),
                label: format!("single {}", part.n),
                ..part.clone()
            };
            let singles: Vec<_> = result.parts.iter().filter(|part| part.curve == "bcc").map(single).collect();
            result.parts.extend(singles);
            result.notes.push(format!(
                "one line to each, of {} bytes, and of {ADDRESS_BYTES} more for each receiver beside the curve 'to'; \
                 the measurement of 'bcc' stands beside 'single' too",
                chat::BYTES
            ));
        }
    }
    Ok(result)
}

/// Such a server as a child process, which ends when this is dropped.
struct RawProcess {
    child: std::process::Child,
    address: SocketAddr,
}

impl RawProcess {
    fn start(kind: RawKind) -> BenchOutcome<RawProcess> {
        let mut command = tied_command(std::env::current_exe()?);
        command.args(["bench", "peers", "--raw", &kind.to_string()]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        Ok(RawProcess { child, address: line.trim().parse()? })
    }
}

impl Drop for RawProcess {
    fn drop(&mut self) {
        // It may have ended by itself when its connections were closed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn fan_out(listener: &TcpListener, connections: usize) -> BenchOutcome<()> {
    let sockets: Vec<TcpStream> = (0..connections).map(|_| Ok(listener.accept()?.0)).collect::<BenchOutcome<_>>()?;
    let set = RawSet::of(&sockets)?;
    let mut carries = vec![Vec::new(); sockets.len()];
    let mut buffer = vec![0; BUFFER];
    loop {
        for number in set.wait(Duration::from_secs(3600))? {
            let (Some(mut socket), Some(carry)) = (sockets.get(number), carries.get_mut(number)) else { continue };
            let len = match socket.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(len) => len,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => continue,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            carry.extend_from_slice(buffer.get(..len).unwrap_or_default());
            let Some(end) = memchr::memrchr(b'\n', carry) else { continue };
            let lines: Vec<u8> = carry.drain(..=end).collect();
            for (_, receiver) in sockets.iter().enumerate().filter(|(other, _)| *other != number) {
                write_all(receiver, &lines)?;
            }
        }
    }
}

fn write_all(mut socket: &TcpStream, mut bytes: &[u8]) -> BenchOutcome<()> {
    while !bytes.is_empty() {
        match socket.write(bytes) {
            Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                poll(&mut [PollFd::new(&socket, PollFlags::OUT)], None)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Plays with pairs in a closed loop for a while, after a warm-up of half a second.
fn play(result: &mut RunResult, server: &RawProcess, pairs: usize, window: usize, time: Duration) -> BenchOutcome<()> {
    let mut table = RawTable::connect(server.address, 2 * pairs)?;
    let line = line(chat::BYTES);
    let (begun, mut sent) = (Instant::now(), vec![std::collections::VecDeque::new(); 2 * pairs]);
    for seat in (0..2 * pairs).step_by(2).cycle().take(pairs * window) {
        table.send(seat, &line)?;
        sent.get_mut(seat).ok_or("no such seat")?.push_back(0);
    }
    let (mut recorder, mut from, until) = (LatencyRecorder::default(), None, begun + WARM_UP + time);
    let mut count = 0;
    while Instant::now() < until {
        if from.is_none() && begun.elapsed() >= WARM_UP {
            (recorder, count) = (LatencyRecorder::default(), 0);
            from = Some((Instant::now(), Cpu::of(server.child.id())?, Cpu::of_this_process()));
        }
        for (seat, lines) in table.read(line.len())? {
            let now = begun.elapsed().as_nanos() as u64;
            for _ in 0..lines {
                let since = sent.get_mut(seat ^ 1).and_then(std::collections::VecDeque::pop_front).unwrap_or(now);
                recorder.add(now.saturating_sub(since));
                table.send(seat, &line)?;
                sent.get_mut(seat).ok_or("no such seat")?.push_back(now);
                count += 1;
            }
        }
    }
    let (start, server_before, own_before) = from.ok_or("no time to measure")?;
    result.server_cpu = Some(cpu_of(&Cpu::of(server.child.id())?.since(&server_before), count));
    result.generator_cpu = cpu_of(&Cpu::of_this_process().since(&own_before), count);
    result.seconds = start.elapsed().as_secs_f64();
    (result.sent, result.delivered, result.expected) = (count, count, count);
    result.throughput = Some(count as f64 / result.seconds);
    result.sessions = 2 * pairs as u64;
    result.notes.push("its generator has one thread: compare CPU time, not deliveries per second".to_owned());
    let mut histogram = LatencyHistogram::default();
    histogram.add(&recorder);
    result.latency = histogram.latency();
    Ok(())
}

/// Sends lines at a steady rate, at an interval and for a time, each from another sender; latency
/// counts from the intended time of sending.
fn everybody(
    result: &mut RunResult,
    server: &RawProcess,
    users: usize,
    (apart, time): (Duration, Duration),
    line: &[u8],
) -> BenchOutcome<()> {
    let mut table = RawTable::connect(server.address, users)?;
    let (server_before, own_before) = (Cpu::of(server.child.id())?, Cpu::of_this_process());
    let (begun, recorder, mut came) = (Instant::now(), LatencyRecorder::default(), vec![0; users]);
    // The intended times of sending.
    let mut sent: Vec<Duration> = Vec::new();
    let mut delivered = 0;
    loop {
        let due = apart.saturating_mul(sent.len() as u32);
        if due < time && begun.elapsed() >= due {
            table.send(sent.len() % users.max(1), line)?;
            sent.push(due);
        }
        if due >= time && (delivered == sent.len() * (users - 1) || begun.elapsed() > time + PATIENCE) {
            break;
        }
        let wait = if due < time { due.saturating_sub(begun.elapsed()) } else { Duration::from_millis(100) };
        for (seat, lines) in table.read_within(line.len(), wait)? {
            let now = begun.elapsed();
            for _ in 0..lines {
                // The lines reach a receiver in their order, except its own.
                let Some(nth) = came.get_mut(seat) else { continue };
                *nth += usize::from(*nth % users == seat);
                recorder.add(sent.get(*nth).map_or(0, |at| now.saturating_sub(*at).as_nanos() as u64));
                *nth += 1;
                delivered += 1;
            }
        }
    }
    (result.sent, result.delivered) = (sent.len() as u64, delivered as u64);
    result.expected = (sent.len() * (users - 1)) as u64;
    result.lost = result.expected - result.delivered;
    result.seconds = begun.elapsed().as_secs_f64();
    result.throughput = Some(delivered as f64 / result.seconds);
    result.server_cpu = Some(cpu_of(&Cpu::of(server.child.id())?.since(&server_before), delivered as u64));
    result.generator_cpu = cpu_of(&Cpu::of_this_process().since(&own_before), delivered as u64);
    result.sessions = users as u64;
    let mut histogram = LatencyHistogram::default();
    histogram.add(&recorder);
    result.latency = histogram.latency();
    Ok(())
}

fn cpu_of(cpu: &Cpu, operations: u64) -> result::ServerCpu {
    result::ServerCpu {
        total_s: cpu.seconds(),
        user_s: cpu.seconds() * cpu.user_share(),
        us_per_operation: cpu.seconds() * 1e6 / operations.max(1) as f64,
    }
}

/// Sends one line to this number of receivers, again and again, and measures that.
fn point(
    server: &RawProcess,
    receivers: usize,
    time: Duration,
    curve: &str,
    length: usize,
) -> BenchOutcome<SweepPoint> {
    let mut table = RawTable::connect(server.address, receivers + 1)?;
    let (line, begun, mut rounds) = (line(length), Instant::now(), Vec::new());
    let before = Cpu::of(server.child.id())?;
    while rounds.is_empty() || begun.elapsed() < time {
        let (start, mut missing) = (Instant::now(), receivers);
        table.send(0, &line)?;
        while missing > 0 {
            let came: usize = table.read(line.len())?.into_iter().map(|(_, lines)| lines).sum();
            missing = missing.saturating_sub(came);
            if start.elapsed() > PATIENCE {
                return Err(format!("{missing} of {receivers} lines don't come").into());
            }
        }
        rounds.push(start.elapsed().as_secs_f64() * 1e6 / receivers as f64);
    }
    let cpu = Cpu::of(server.child.id())?.since(&before).seconds();
    let delivered = rounds.len() * receivers;
    Ok(SweepPoint {
        curve: curve.to_owned(),
        label: format!("{curve} {receivers}"),
        n: receivers as u64,
        rounds: rounds.len() as u64,
        delivered: delivered as u64,
        expected: delivered as u64,
        us_per_destination_wall: median_and_min(&rounds).0,
        us_cpu_per_destination: Some(cpu * 1e6 / delivered as f64),
        latency: None,
    })
}

fn line(length: usize) -> Vec<u8> {
    let mut line = vec![b'x'; length.saturating_sub(1)];
    line.push(b'\n');
    line
}

/// The generator's connections. Since all lines have the same length, bytes are counted and not
/// examined.
struct RawTable {
    sockets: Vec<TcpStream>,
    set: RawSet,
    /// The bytes of an unfinished line, for each.
    parts: Vec<usize>,
    buffer: Vec<u8>,
}

impl RawTable {
    fn connect(server: SocketAddr, count: usize) -> BenchOutcome<RawTable> {
        let sockets: Vec<TcpStream> =
            (0..count).map(|_| Ok(TcpStream::connect(server)?)).collect::<BenchOutcome<_>>()?;
        let set = RawSet::of(&sockets)?;
        Ok(RawTable { sockets, set, parts: vec![0; count], buffer: vec![0; BUFFER] })
    }

    fn send(&self, seat: usize, line: &[u8]) -> BenchOutcome<()> {
        write_all(self.sockets.get(seat).ok_or("no such seat")?, line)
    }

    /// Waits for input; returns the connections with the number of whole lines that each of them
    /// got.
    fn read(&mut self, length: usize) -> BenchOutcome<Vec<(usize, usize)>> {
        self.read_within(length, Duration::from_millis(100))
    }

    /// Waits for input like `read`, but at most `most`.
    fn read_within(&mut self, length: usize, most: Duration) -> BenchOutcome<Vec<(usize, usize)>> {
        let mut came = Vec::new();
        for number in self.set.wait(most)? {
            let (Some(mut socket), Some(part)) = (self.sockets.get(number), self.parts.get_mut(number)) else {
                continue;
            };
            match socket.read(&mut self.buffer) {
                Ok(0) => return Err("the raw server closed a connection".into()),
                Ok(len) => *part += len,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => continue,
                Err(error) => return Err(error.into()),
            }
            came.push((number, *part / length));
            *part %= length;
        }
        Ok(came)
    }
}

/// An epoll set over sockets, which it makes non-blocking.
struct RawSet(OwnedFd);

impl RawSet {
    fn of(sockets: &[TcpStream]) -> BenchOutcome<RawSet> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (number, socket) in sockets.iter().enumerate() {
            socket.set_nonblocking(true)?;
            socket.set_nodelay(true)?;
            epoll::add(&set, socket, epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN)?;
        }
        Ok(RawSet(set))
    }

    /// Returns the numbers of the readable sockets.
    fn wait(&self, most: Duration) -> BenchOutcome<Vec<usize>> {
        let mut events = Vec::with_capacity(EVENTS);
        match epoll::wait(&self.0, rustix::buffer::spare_capacity(&mut events), Some(&Timespec::try_from(most)?)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(events.iter().map(|event| event.data.u64() as usize).collect())
    }
}

/// The number of bytes that an address adds to a header: `<address delivered='true' type='to'
/// jid='user0000000@localhost'/>`.
const ADDRESS_BYTES: usize = 69;
/// The approximate bytes of a presence of the scenario for a contact.
pub(super) const PRESENCE_BYTES: usize = 320;
/// The approximate bytes of a message of the scenarios for an occupant of a room.
pub(super) const ROOM_BYTES: usize = 400;
const BUFFER: usize = 64 * 1024;
const EVENTS: usize = 1024;
const WARM_UP: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_goes_to_all_others_once() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || fan_out(&listener, 4).map_err(|error| error.to_string()));
        let mut table = RawTable::connect(address, 4).unwrap();
        for _ in 0..3 {
            table.send(1, &line(chat::BYTES)).unwrap();
        }
        let mut got = [0; 4];
        while got.iter().sum::<usize>() < 9 {
            for (seat, lines) in table.read(chat::BYTES).unwrap() {
                got[seat] += lines;
            }
        }
        assert_eq!(got, [3, 0, 3, 3]);
        drop(table);
        server.join().unwrap().unwrap();
    }

    #[test]
    fn kinds_survive_the_command_line() {
        for kind in [RawKind::Relay(7), RawKind::FanOut(902)] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert!("relay".parse::<RawKind>().is_err() && "x:1".parse::<RawKind>().is_err());
    }
}
