#!/usr/bin/env python3
"""Measures what process variables of EPICS cost that many clients monitor, through Rookery and
through a gateway of Channel Access, in turns on the same load.

    ROOKERY=target/release/rookery python3 tests/load/variables.py \\
        --gateway ca-gateway/bin/linux-x86_64/gateway

The soft IOC of EPICS base (from PyPI's `epicscorelibs`) has `--variables` records that change once
a second. Each of `--clients` clients monitors `--each` of them over Channel Access, and the next
client continues where the last one stopped. The report has the CPU time of the server in between
for each update that reached a client, and the delay since the IOC's time stamp. All processes share
the machine's cores. `--gateway` is the program of `epics-extensions/ca-gateway`; without it, only
Rookery is measured. With `--protocol PVA`, Rookery monitors the records by pvAccess. Its clients
still use Channel Access, since it serves no other protocol of EPICS. `--pvagw` measures the gateway
of `p4p` (PyPI; it needs `ply`), whose clients use pvAccess like the gateway itself.
"""

import argparse
import contextlib
import json
import os
import pathlib
import resource
import selectors
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).parents[1] / "clients"))
from ports import free_port  # noqa: E402
from pv_access import PvaMonitorClient  # noqa: E402

HEAD = struct.Struct(">HHHHII")
VERSION, EVENT_ADD, SEARCH, CREATE = 0, 1, 6, 18
MINOR = 13
# A number with its time: the type of updates, and the bytes of an update with its header.
TIME_DOUBLE, UPDATE = 20, 40
# Seconds between 1970 and the epoch of EPICS, 1990.
EPOCH = 631152000
# The number of clients that check time stamps, and for each the number of updates to check.
OBSERVERS, SAMPLE = 5, 20
# The number of names in a datagram of searches.
AT_ONCE = 40


def main():
    options = _options()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    servers = {"rookery": _rookery} | ({"gateway": _gateway} if options.gateway else {}) | ({"pvagw": _pvagw} if options.pvagw else {})
    results = {name: [] for name in servers}
    with tempfile.TemporaryDirectory(prefix="rookery-variables-") as folder, _ioc(folder, options) as ioc:
        for number in range(options.rounds):
            for name, start in servers.items():
                with start(folder, options, ioc) as (port, prefix, process):
                    results[name].append(_measure(f"round {number + 1}, {name}", options, port, prefix, process))
    for name, rounds in results.items():
        cost = [cost for cost, *_ in rounds]
        print(
            f"{name}: CPU {statistics.median(cost):.2f} µs/update ({min(cost):.2f} to {max(cost):.2f}), "
            f"p50 {statistics.median([late for _, late, _ in rounds]):.0f} ms, p99 {statistics.median([late for *_, late in rounds]):.0f} ms"
        )


def _measure(title, options, port, prefix, process):
    clients = [_client(number, options, port, prefix) for number in range(options.clients)]
    begun = time.monotonic()
    for client in clients:
        client.join()
    connected = time.monotonic() - begun
    _drain(clients, options.warm_up, False)
    before, start = [client.updates for client in clients], time.monotonic()
    cpu = _cpu(process)
    _drain(clients, options.seconds, True)
    spent, elapsed = _cpu(process) - cpu, time.monotonic() - start
    updates = sum(client.updates - old for client, old in zip(clients, before))
    late = sorted(late for client in clients for late in client.late)
    share = lambda part: late[min(int(len(late) * part), len(late) - 1)]
    for client in clients:
        client.socket.close()
    print(
        f"{title}: {updates / elapsed:.0f} updates/s for {options.clients * options.each} monitors; CPU {spent * 1e6 / updates:.2f} µs/update "
        f"({100 * spent / elapsed:.0f} % of a core), late by p50 {share(0.5):.0f} ms, p99 {share(0.99):.0f} ms; "
        f"memory {_memory(process)} MiB; connected within {connected:.1f} s; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores",
        flush=True,
    )
    return spent * 1e6 / updates, share(0.5), share(0.99)


def _drain(clients, seconds, observes):
    """Reads everything that arrives for all clients, for some seconds."""
    with selectors.DefaultSelector() as ready:
        for number, client in enumerate(clients):
            ready.register(client.socket, selectors.EVENT_READ, (client, number < OBSERVERS and observes))
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for key, _ in ready.select(0.1):
                key.data[0].read(key.data[1])


def _client(number, options, port, prefix):
    """Returns a client of a server of Channel Access, or of pvAccess if there are two ports."""
    names = [f"{prefix}{(number * options.each + place) % options.variables}" for place in range(options.each)]
    # Requests from one address are bounded, so the clients share fifty addresses.
    address = f"127.0.0.{2 + number % 50}"
    return PvaMonitorClient(names, address, port, SAMPLE) if isinstance(port, tuple) else MonitorClient(names, address, port)


class MonitorClient:
    """A client of Channel Access with one circuit."""

    def __init__(self, names, address, port):
        self.names, self.address, self.port = names, address, port
        self.socket, self.updates, self.late, self._rest = None, 0, [], b""

    def join(self):
        """Searches for the variables, opens their channels and monitors them."""
        self._search()
        self.socket = socket.create_connection(("127.0.0.1", self.port), source_address=(self.address, 0))
        self.socket.settimeout(60)
        self.socket.sendall(_message(VERSION, count=MINOR) + _message(20, _padded("load")) + _message(21, _padded("localhost")))
        # A server need not take more than it can answer, so a part is sent once the last is open.
        for first in range(0, len(self.names), 500):
            part = range(first, min(first + 500, len(self.names)))
            self.socket.sendall(b"".join(_message(CREATE, _padded(self.names[place]), first=place, second=MINOR) for place in part))
            opened = {}
            while len(opened) < len(part):
                command, _, place, channel, _ = self._next()
                assert command in (VERSION, 22, CREATE, EVENT_ADD), f"the channel was refused: {command}"
                if command == CREATE:
                    opened[place] = channel
            mask = struct.pack(">fffHH", 0, 0, 0, 1, 0)
            self.socket.sendall(b"".join(_message(EVENT_ADD, mask, TIME_DOUBLE, 1, channel, place) for place, channel in opened.items()))
            known = set()
            while len(known) < len(part):
                command, size, _, subscription, payload = self._next()
                assert (command, size) == (EVENT_ADD, UPDATE - HEAD.size), (command, size)
                if payload and subscription in part:
                    known.add(subscription)
        self.socket.setblocking(False)

    def _search(self):
        left = dict(enumerate(self.names))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as searches:
            searches.settimeout(0.2)
            end = time.monotonic() + 120
            while left:
                assert time.monotonic() < end, f"{len(left)} variables weren't found, such as {min(left.values())}"
                numbers = list(left)[: 10 * AT_ONCE]
                for first in range(0, len(numbers), AT_ONCE):
                    part = numbers[first : first + AT_ONCE]
                    questions = b"".join(_message(SEARCH, _padded(left[number]), 5, MINOR, number, number) for number in part)
                    searches.sendto(_message(VERSION, count=MINOR) + questions, ("127.0.0.1", self.port))
                with contextlib.suppress(TimeoutError):
                    while any(number in left for number in numbers):
                        answer = searches.recv(65536)
                        while answer:
                            command, size, _, _, _, number = HEAD.unpack_from(answer)
                            if command == SEARCH:
                                left.pop(number, None)
                            answer = answer[HEAD.size + size :]

    def _next(self):
        while len(self._rest) < HEAD.size or len(self._rest) < HEAD.size + HEAD.unpack_from(self._rest)[1]:
            taken = self.socket.recv(1 << 16)
            assert taken, "the server ended the circuit"
            self._rest += taken
        command, size, _, _, first, second = HEAD.unpack_from(self._rest)
        payload, self._rest = self._rest[HEAD.size : HEAD.size + size], self._rest[HEAD.size + size :]
        return command, size, first, second, payload

    def read(self, observes):
        """Takes the updates that have arrived, all of which have the same size."""
        try:
            taken = self.socket.recv(1 << 20)
        except BlockingIOError:
            return
        assert taken, "the server ended the circuit"
        self._rest += taken
        whole = len(self._rest) - len(self._rest) % UPDATE
        self.updates += whole // UPDATE
        if observes:
            now = time.time()
            for place in range(0, whole, UPDATE * SAMPLE):
                command, size, kind = struct.unpack_from(">HHH", self._rest, place)
                assert (command, size, kind) == (EVENT_ADD, UPDATE - HEAD.size, TIME_DOUBLE)
                seconds, nanoseconds = struct.unpack_from(">II", self._rest, place + HEAD.size + 4)
                self.late.append(1000 * (now - EPOCH - seconds - nanoseconds / 1e9))
        self._rest = self._rest[whole:]


def _message(command, payload=b"", kind=0, count=0, first=0, second=0):
    return HEAD.pack(command, len(payload), kind, count, first, second) + payload


def _padded(text):
    text = text.encode() + b"\0"
    return text + b"\0" * (-len(text) % 8)


@contextlib.contextmanager
def _ioc(folder, options):
    """The soft IOC with all records. Yields its ports for searches, by protocol."""
    port, searches = free_port(), free_port()
    records = pathlib.Path(folder) / "records.db"
    with records.open("w") as file:
        for number in range(options.variables):
            file.write(f'record(calc, "IOC:V{number}") {{ field(SCAN, "{options.scan}") field(INPA, "IOC:V{number}") field(CALC, "A+1") }}\n')
    command = [options.python, "-m", "epicscorelibs.ioc", "-d", str(records)]
    environment = _epics(port) | {"EPICS_PVAS_BROADCAST_PORT": str(searches)}
    with _started(command, environment, b"iocRun: All initialization complete"):
        yield {"CA": port, "PVA": searches}


@contextlib.contextmanager
def _rookery(folder, options, ioc):
    table = pathlib.Path(folder) / "devices.toml"
    with table.open("w") as file:
        file.write(f'[[node]]\nname = "EPICS"\nprotocol = "{options.protocol}"\nsearch = ["127.0.0.1:{ioc[options.protocol]}"]\n')
        for number in range(options.variables):
            file.write(f'[[device]]\nindex = {number + 1}\nname = "T:V{number}"\n[device.reading]\nnode = "EPICS"\npv = "IOC:V{number}"\n')
    port = free_port()
    command = [os.environ["ROOKERY"], "dpm", "--database", str(table), "--network", "127.0.0.1:0", "--listen", "127.0.0.1:0"]
    with _started([*command, "--channel-access", f"127.0.0.1:{port}"], {}, b"find its devices") as process:
        yield port, "T:V", process.pid


@contextlib.contextmanager
def _gateway(folder, options, ioc):
    port = free_port()
    allowed = pathlib.Path(folder) / "gateway.pvlist"
    allowed.write_text("EVALUATION ORDER ALLOW, DENY\n.* ALLOW\n")
    command = [options.gateway, "-sip", "127.0.0.1", "-sport", str(port), "-cip", "127.0.0.1", "-cport", str(ioc["CA"])]
    command += ["-pvlist", str(allowed), "-prefix", "gateway", "-log", "/dev/stdout", "-home", folder]
    with _started(command, _epics(port), b"Running as user") as process:
        yield port, "IOC:V", process.pid


@contextlib.contextmanager
def _pvagw(folder, options, ioc):
    """The gateway of p4p, between clients of pvAccess and the soft IOC."""
    searches, port = free_port(), free_port()
    client = {"name": "ioc", "provider": "pva", "addrlist": f"127.0.0.1:{ioc['PVA']}", "autoaddrlist": False, "bcastport": ioc["PVA"]}
    server = {"name": "readers", "clients": ["ioc"], "interface": ["127.0.0.1"], "addrlist": "127.0.0.1", "autoaddrlist": False}
    server |= {"serverport": port, "bcastport": searches}
    configuration = pathlib.Path(folder) / "pvagw.json"
    configuration.write_text(json.dumps({"version": 2, "readOnly": True, "clients": [client], "servers": [server]}))
    with _started([options.python, "-m", "p4p.gw", str(configuration)], {}, b"to ignore GW servers") as process:
        yield (searches, port), "IOC:V", process.pid


def _epics(port):
    """Returns the variables of the environment that keep a server of EPICS on this machine."""
    return {
        "EPICS_CA_SERVER_PORT": str(port),
        "EPICS_CAS_SERVER_PORT": str(port),
        "EPICS_CAS_INTF_ADDR_LIST": "127.0.0.1",
        "EPICS_CAS_BEACON_ADDR_LIST": "127.0.0.1",
        "EPICS_CAS_AUTO_BEACON_ADDR_LIST": "NO",
        "EPICS_CAS_BEACON_PORT": str(free_port()),
        "EPICS_CA_REPEATER_PORT": str(free_port()),
        "EPICS_CA_ADDR_LIST": "127.0.0.1",
        "EPICS_CA_AUTO_ADDR_LIST": "NO",
        "EPICS_PVAS_SERVER_PORT": str(free_port()),
        "EPICS_PVAS_BROADCAST_PORT": str(free_port()),
        "EPICS_PVAS_INTF_ADDR_LIST": "127.0.0.1",
        "EPICS_PVAS_AUTO_BEACON_ADDR_LIST": "NO",
    }


@contextlib.contextmanager
def _started(command, environment, sign):
    """Runs a process, whose output is discarded after the line with this sign."""
    process = subprocess.Popen(
        command, env=os.environ | environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        said = b""
        while sign not in said:
            line = process.stdout.readline()
            assert line, f"{command[0]} did not start: {said.decode()}"
            said += line
        silent = subprocess.Popen(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL)
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
        silent.wait()


def _cpu(process):
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(process):
    [line] = [line for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) // 1024


def _options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in [("variables", 10_000), ("clients", 100), ("each", 1000), ("seconds", 20), ("warm-up", 5), ("rounds", 3)]:
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--scan", default="1 second", help="how often each record changes, as EPICS says it")
    parser.add_argument("--protocol", choices=["CA", "PVA"], default="CA", help="by which Rookery monitors the records")
    parser.add_argument("--gateway", help="the program `gateway` of epics-extensions/ca-gateway")
    parser.add_argument("--pvagw", action="store_true", help="measure p4p's gateway, whose clients use pvAccess")
    parser.add_argument("--python", default=sys.executable, help="a Python with epicscorelibs, and p4p for its gateway")
    return parser.parse_args()


if __name__ == "__main__":
    main()
