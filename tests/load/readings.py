#!/usr/bin/env python3
"""Measures the cost and the delay of readings, for many clients that read a table of devices on
simulated front-ends.

    ROOKERY=target/release/rookery python3 tests/load/readings.py --devices 100000 \\
        --front-ends 200 --clients 1000 --each 500 --seconds 20

Each client reads `--each` devices once a second (or every `--period` milliseconds), and the next
client reads the next part of the table. Front-ends have no clock in common, so their answers are
spread over `--spread` milliseconds; with 0, many answer at the same moment, since their requests
were sent together. The report has the service's CPU time per delivered reading, compared with
writing the same bytes to the same number of sockets, and the delay between the front-end's clock
and a few of the clients, in whole milliseconds. Those few have a process of their own, so that they
don't wait for the others to be read. The others are read every `--rest` milliseconds: if each write
woke the process that reads them, it would take a core of its own. All processes share the machine's
cores; a process that only sleeps shows how late they let it wake.

Afterwards, a process that does nothing else writes as many bytes to the same clients, due at the
same moments as the answers of the front-ends. In each round it writes to every client what is due
by then, so its delays are those of the kernel's work and of the clients on this machine.
"""

import argparse
import contextlib
import itertools
import math
import multiprocessing
import os
import re
import resource
import select
import socket
import struct
import subprocess
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

GREETING = b"GET /dpm HTTP/1.1\r\nContent-Type: application/pc\r\n\r\n"
HEAD = b"SDD\x02\x51\x03\x14\xb1\x3a\x70\x3a"
# The fields `ref_id` and `timestamp`, the latter in milliseconds since 1970.
STAMP = re.compile(b"\x12\x1e\xab(?:\x11(.)|\x12(..))\x12\xd5\\x5b\x16(.{6})", re.DOTALL)
# The number of clients that check the timestamps of their readings.
OBSERVERS = 5


def main():
    options = _options()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory(prefix="rookery-readings-") as folder, contextlib.ExitStack() as stack:
        begun = time.monotonic()
        address, _ = stack.enter_context(_started("simulate", "--database", _table(folder, options, "127.0.0.1:6801"), "--listen", "127.0.0.1:0"))
        table = _table(folder, options, address)
        line, service = stack.enter_context(_started("--database", table, "--network", "127.0.0.1:0", "--listen", "127.0.0.1:0"))
        host, port = line.rstrip(".").rsplit(" ", 1)[1].split(":")
        print(f"started within {time.monotonic() - begun:.1f} s: {line}", flush=True)
        stack.enter_context(_others((host, int(port)), options))
        drain = Drain((host, int(port)), options, _observers(options))
        drain.connect()
        time.sleep(options.warm_up)
        before, cpu, start = _counters(host, port), _cpu(service), time.monotonic()
        drain.observe(True)
        woken = _sleep(options.seconds)
        drain.observe(False)
        after, spent, elapsed = _counters(host, port), _cpu(service) - cpu, time.monotonic() - start
        drain.stop()
        _tell(options, before, after, spent, elapsed, drain, woken, _memory(service))
    _write_bare(options, drain.bytes // max(drain.readings, 1))


def _tell(options, before, after, spent, elapsed, drain, woken, memory):
    of = lambda name: after[f"rookery_dpm_{name}"] - before[f"rookery_dpm_{name}"]
    delivered, readings = of("delivered_total"), of("readings_total")
    bytes_of_reading = drain.bytes / max(drain.readings, 1)
    # The service writes to a client at most once per datagram of a front-end.
    per_write = max(drain.readings / max(drain.reads, 1), 1)
    bare = _bare(options.clients, int(bytes_of_reading * per_write)) / per_write
    print(f"delivered {delivered / elapsed:.0f} readings/s of {readings / elapsed:.0f} readings/s from front-ends; dropped {of('dropped_total'):.0f}, unanswered {of('timeouts_total'):.0f}")
    print(f"CPU {spent * 1e6 / delivered:.3f} µs/reading ({100 * spent / elapsed:.0f} % of a core, user and system); bare writes {bare:.3f} µs/reading, {bytes_of_reading:.0f} bytes each, {per_write:.0f} a write")
    print(_delays(drain))
    print(f"a sleeping process wakes late by p50 {_of_all(woken, 0.5):.1f} ms, p99 {_of_all(woken, 0.99):.1f} ms, most {woken[-1]:.1f} ms")
    print(f"memory {memory} MiB; load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def _delays(drain):
    late = sorted(drain.late)
    return f"late by p50 {_of_all(late, 0.5)} ms, p99 {_of_all(late, 0.99)} ms, most {_of_all(late, 1)} ms ({len(late)} readings of {OBSERVERS} clients)"


def _of_all(sample, part):
    """Returns the value that this part of a sorted sample doesn't exceed."""
    return sample[min(int(len(sample) * part), len(sample) - 1)] if sample else None


def _write_bare(options, size):
    """Measures the delays of readings of so many bytes that nothing but a loop of writes makes."""
    with socket.create_server(("127.0.0.1", 0), backlog=options.clients) as listener:
        writer = BareWriter(listener, options, size)
        process = multiprocessing.Process(target=writer.run)
        process.start()
        with contextlib.ExitStack() as stack:
            stack.callback(process.terminate)
            stack.enter_context(_others(listener.getsockname(), options, greets=False))
            drain = Drain(listener.getsockname(), options, _observers(options), greets=False)
            drain.connect()
            time.sleep(options.warm_up)
            before, cpu, start = writer.written.value, _cpu(process.pid), time.monotonic()
            drain.observe(True)
            time.sleep(options.seconds)
            drain.observe(False)
            spent, elapsed = _cpu(process.pid) - cpu, time.monotonic() - start
            writes = writer.written.value - before
            drain.stop()
    due = options.clients * options.each * 1000 / options.period
    print(f"a process that only writes: {_delays(drain)}; {due * elapsed / max(writes, 1):.1f} readings a write, {100 * spent / elapsed:.0f} % of a core")


class BareWriter:
    """Writes to all clients what the front-ends' answers have for them, when they would answer."""

    def __init__(self, listener, options, size):
        self.listener, self.options, self.size = listener, options, size
        self.written, self._orders = multiprocessing.Value("Q", 0, lock=False), {}

    def run(self):
        options, clients = self.options, {}
        for _ in range(options.clients):
            client, _ = self.listener.accept()
            # As the service does: otherwise a write may leave its bytes to a later one.
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            clients[int.from_bytes(client.recv(4, socket.MSG_WAITALL), "big")] = client
        observers, parts = set(_observers(options)), []
        for number, client in sorted(clients.items()):
            first = _first(number, options)
            parts.append((number, client, self._pattern(first), first if number in observers else None))
        done, begun, blank = dict.fromkeys(clients, 0), time.time() * 1000, memoryview(bytes(self.size * options.each * 10))
        while any(count < math.inf for count in done.values()):
            writes = 0
            for number, client, pattern, first in parts:
                periods, within = divmod(time.time() * 1000 - begun, options.period)
                answers = min(int(within * options.front_ends / options.spread) + 1, options.front_ends) if options.spread else options.front_ends
                due = int(periods) * options.each + pattern[answers]
                if due > done[number]:
                    try:
                        client.sendall(blank[: self.size * (due - done[number])] if first is None else self._frames(first, begun, done[number], due))
                        done[number], writes = due, writes + 1
                    except OSError:
                        # The measurement is over.
                        done[number] = math.inf
            self.written.value += writes
            if not writes:
                time.sleep(0.0005)

    def _pattern(self, first):
        """Returns the number of readings of a client, by the number of front-ends that have
        answered in a period.
        """
        options, of = self.options, [0] * self.options.front_ends
        for ref in range(options.each):
            of[(first + ref) % options.devices % options.front_ends] += 1
        return list(itertools.accumulate(of, initial=0))

    def _frames(self, first, begun, start, end):
        """Returns readings of an observer with their times, as the service sends them. They come
        by front-end.
        """
        options = self.options
        if (order := self._orders.get(first)) is None:
            front_end = lambda ref: (first + ref) % options.devices % options.front_ends
            order = self._orders[first] = sorted(range(options.each), key=lambda ref: (front_end(ref), ref))
        frames = b""
        for place in range(start, end):
            period, place = divmod(place, options.each)
            stamp = int(begun) + period * options.period
            fields = b"\x12\x1e\xab" + _int(order[place] + 1) + b"\x12\xd5\x5b\x16" + stamp.to_bytes(6, "big")
            frames += _framed(b"\x12\xd6\xab\x51\x0a" + fields + b"\x12\x07\x40\x11\x00\x12\x44\x54\x11\x00\x12\x7f\x38\x28" + bytes(8))
        return frames


def _observers(options):
    return range(0, options.clients, options.clients // OBSERVERS)


def _first(number, options):
    """Returns the first device of a client."""
    return number * max(options.devices // options.clients, 1)


def _sleep(seconds):
    """Sleeps in a process of its own, again and again, and returns by how many milliseconds it woke
    late, in order.
    """
    ours, theirs = multiprocessing.Pipe()

    def run():
        late, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            begun = time.monotonic()
            time.sleep(0.005)
            late.append(1000 * (time.monotonic() - begun) - 5)
        theirs.send(sorted(late))

    process = multiprocessing.Process(target=run)
    process.start()
    late = ours.recv()
    process.join()
    return late


@contextlib.contextmanager
def _others(server, options, greets=True):
    """Connects all clients but the observers, in a process that reads what they get."""
    is_connected, is_over = multiprocessing.Event(), multiprocessing.Event()

    def run():
        numbers = sorted(set(range(options.clients)) - set(_observers(options)))
        drain = Drain(server, options, numbers, options.rest, greets)
        drain.connect()
        is_connected.set()
        is_over.wait()
        drain.stop()

    process = multiprocessing.Process(target=run)
    process.start()
    try:
        while not is_connected.wait(1):
            assert process.is_alive(), "the clients could not connect"
        yield
    finally:
        is_over.set()
        process.join()


class Drain:
    """Clients that read everything that arrives, and check the timestamps if they are observers.
    They rest after each round of reading.
    """

    def __init__(self, server, options, numbers, rest=0, greets=True):
        self.server, self.options, self.numbers, self.rest, self.greets = server, options, numbers, rest, greets
        self.late, self.bytes, self.readings, self.reads = [], 0, 0, 0
        self._ready, self._clients, self._observes, self._over = select.epoll(), {}, False, False
        self._thread = None

    def connect(self):
        options = self.options
        for number in self.numbers:
            client = socket.socket()
            # Requests from one address are bounded, so the clients share fifty addresses.
            client.bind((f"127.0.0.{2 + number % 50}", 0))
            client.connect(self.server)
            first = _first(number, options)
            if self.greets:
                self._ask(client, first)
            else:
                client.sendall(number.to_bytes(4, "big"))
            client.setblocking(False)
            self._clients[client.fileno()] = client, first
            self._ready.register(client, select.EPOLLIN)
            if not self._thread:
                self._thread = threading.Thread(target=self._run)
                self._thread.start()

    def _ask(self, client, first):
        """Requests devices from the service, beginning with the first one."""
        options = self.options
        client.sendall(GREETING)
        reply = client.recv(4096)
        list_id = reply[reply.index(b"\x12\xe8\x20") + 3 :]
        list_id = list_id[: 1 + (list_id[0] & 15)]
        asked = b""
        for ref in range(options.each):
            drf = f"T:D{(first + ref) % options.devices}@p,{options.period}".encode()
            asked += _framed(b"\x11\x61\x51\x06\x12\xe8\x20" + list_id + b"\x12\x1e\xab" + _int(ref + 1) + b"\x12\x63\x24" + _text(drf))
        client.sendall(asked + _framed(b"\x12\xdd\xb5\x51\x02\x12\xe8\x20" + list_id))

    def observe(self, observes):
        self._observes = observes

    def stop(self):
        self._over = True
        self._thread.join()
        for client, _ in self._clients.values():
            client.close()

    def _run(self):
        buffer = bytearray(1 << 18)
        while not self._over:
            for descriptor, _ in self._ready.poll(0.5):
                try:
                    taken = os.readv(descriptor, [buffer])
                except BlockingIOError:
                    continue
                assert taken, "the service ended a connection"
                if self._observes:
                    self._look(self._clients[descriptor][1], bytes(buffer[:taken]))
            if self.rest:
                time.sleep(self.rest / 1000)

    def _look(self, first, taken):
        """Records the delays of the readings of a client, whose first device is given."""
        now, stamps = time.time() * 1000, STAMP.findall(taken)
        for short, long, stamp in stamps:
            device = (first + int.from_bytes(short or long, "big") - 1) % self.options.devices
            answered = int.from_bytes(stamp, "big") + _delay(device % self.options.front_ends, self.options)
            self.late.append(int(now) - answered)
        self.bytes, self.readings, self.reads = self.bytes + len(taken), self.readings + len(stamps), self.reads + 1


def _delay(front_end, options):
    """Returns the milliseconds by which a front-end answers later than it is asked to."""
    return front_end * options.spread // options.front_ends


def _bare(sockets, size):
    """Returns the CPU time, in µs, of a write of this many bytes over this many TCP sockets that
    are being read.
    """
    listener = socket.create_server(("127.0.0.1", 0), backlog=sockets)
    pairs = []
    for _ in range(sockets):
        writer = socket.create_connection(listener.getsockname())
        pairs.append((writer, listener.accept()[0]))
    payload, spent, writes = b"x" * size, 0.0, 0
    for _ in range(max(20_000 // sockets, 3)):
        cpu = time.thread_time()
        for writer, _ in pairs:
            writer.send(payload)
        spent, writes = spent + time.thread_time() - cpu, writes + sockets
        for _, reader in pairs:
            left = size
            while left > 0:
                left -= len(reader.recv(left))
    for pair in pairs:
        for end in pair:
            end.close()
    listener.close()
    return spent * 1e6 / writes


def _framed(message):
    message = HEAD + message
    return struct.pack(">I", len(message)) + message


def _int(number):
    length = (number.bit_length() + 8) // 8
    return bytes([0x10 | length]) + number.to_bytes(length, "big", signed=True)


def _text(text):
    length = _int(len(text))
    return bytes([0x40 | length[0] & 15]) + length[1:] + text


def _table(folder, options, socket_of_front_ends):
    path = Path(folder) / f"{socket_of_front_ends.rsplit(':', 1)[1]}.toml"
    with path.open("w") as table:
        for front_end in range(options.front_ends):
            table.write(f"[[node]]\nname = 'F{front_end}'\naddress = '{0x0c00 + front_end:04x}'\nsocket = '{socket_of_front_ends}'\nprotocol = 'GETS32'\n")
        for front_end in range(options.front_ends):
            table.write(f"[[fault]]\nnode = 'F{front_end}'\ndelay_millis = {_delay(front_end, options)}\n")
        for device in range(options.devices):
            table.write(f"[[device]]\nindex = {device + 1}\nname = 'T:D{device}'\n[device.reading]\nnode = 'F{device % options.front_ends}'\n")
            table.write(f"ssdn = '{device:016x}'\nprimary = 10\nelement = 4\n")
    return str(path)


@contextlib.contextmanager
def _started(*arguments):
    """Runs `rookery dpm`. Yields the first line that the process prints, and its process id."""
    process = subprocess.Popen([os.environ["ROOKERY"], "dpm", *arguments], stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline().strip()
        assert line, "the process did not start"
        yield line, process.pid
    finally:
        process.terminate()
        process.wait()


def _counters(host, port):
    with urllib.request.urlopen(f"http://{host}:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")}


def _cpu(process):
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(process):
    [line] = [line for line in Path(f"/proc/{process}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) // 1024


def _options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in [("devices", 100_000), ("front-ends", 200), ("clients", 1000), ("each", 500), ("period", 1000), ("spread", 1000), ("rest", 50), ("seconds", 20), ("warm-up", 10)]:
        parser.add_argument(f"--{name}", type=int, default=usual)
    return parser.parse_args()


if __name__ == "__main__":
    main()
