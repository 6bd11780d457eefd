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
"""

import argparse
import contextlib
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
        drain = Drain((host, int(port)), options, range(0, options.clients, options.clients // OBSERVERS))
        drain.connect()
        time.sleep(options.warm_up)
        before, cpu, start = _counters(host, port), _cpu(service), time.monotonic()
        drain.observe(True)
        woken = _sleep(options.seconds)
        drain.observe(False)
        after, spent, elapsed = _counters(host, port), _cpu(service) - cpu, time.monotonic() - start
        drain.stop()
        _tell(options, before, after, spent, elapsed, drain, woken, _memory(service))


def _tell(options, before, after, spent, elapsed, drain, woken, memory):
    of = lambda name: after[f"rookery_dpm_{name}"] - before[f"rookery_dpm_{name}"]
    delivered, readings = of("delivered_total"), of("readings_total")
    bytes_of_reading = drain.bytes / max(drain.readings, 1)
    # The service writes to a client at most once per datagram of a front-end.
    per_write = max(drain.readings / max(drain.reads, 1), 1)
    bare = _bare(options.clients, int(bytes_of_reading * per_write)) / per_write
    late = sorted(drain.late)
    of_all = lambda sample, part: sample[min(int(len(sample) * part), len(sample) - 1)] if sample else None
    share = lambda part: of_all(late, part)
    print(f"delivered {delivered / elapsed:.0f} readings/s of {readings / elapsed:.0f} readings/s from front-ends; dropped {of('dropped_total'):.0f}, unanswered {of('timeouts_total'):.0f}")
    print(f"CPU {spent * 1e6 / delivered:.3f} µs/reading ({100 * spent / elapsed:.0f} % of a core, user and system); bare writes {bare:.3f} µs/reading, {bytes_of_reading:.0f} bytes each, {per_write:.0f} a write")
    print(f"late by p50 {share(0.5)} ms, p99 {share(0.99)} ms, most {late[-1] if late else None} ms ({len(late)} readings of {OBSERVERS} clients)")
    print(f"a sleeping process wakes late by p50 {of_all(woken, 0.5):.1f} ms, p99 {of_all(woken, 0.99):.1f} ms, most {woken[-1]:.1f} ms")
    print(f"memory {memory} MiB; load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


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
def _others(server, options):
    """Connects all clients but the observers, in a process that reads what they get."""
    is_connected, is_over = multiprocessing.Event(), multiprocessing.Event()

    def run():
        numbers = [number for number in range(options.clients) if number % (options.clients // OBSERVERS)]
        drain = Drain(server, options, numbers, options.rest)
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

    def __init__(self, server, options, numbers, rest=0):
        self.server, self.options, self.numbers, self.rest = server, options, numbers, rest
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
            client.sendall(GREETING)
            reply = client.recv(4096)
            list_id = reply[reply.index(b"\x12\xe8\x20") + 3 :]
            list_id = list_id[: 1 + (list_id[0] & 15)]
            first = number * max(options.devices // options.clients, 1)
            asked = b""
            for ref in range(options.each):
                drf = f"T:D{(first + ref) % options.devices}@p,{options.period}".encode()
                asked += _framed(b"\x11\x61\x51\x06\x12\xe8\x20" + list_id + b"\x12\x1e\xab" + _int(ref + 1) + b"\x12\x63\x24" + _text(drf))
            client.sendall(asked + _framed(b"\x12\xdd\xb5\x51\x02\x12\xe8\x20" + list_id))
            client.setblocking(False)
            self._clients[client.fileno()] = client, first
            self._ready.register(client, select.EPOLLIN)
            if not self._thread:
                self._thread = threading.Thread(target=self._run)
                self._thread.start()

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
