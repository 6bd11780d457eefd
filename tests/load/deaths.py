"""Breaks connections between two servers at random under load, kills one of the servers if asked
to, and accounts for every message.

    ROOKERY=target/release/rookery python3 tests/load/deaths.py --seconds 600 --life 3 --kill 30

Starts two servers on loopback, with TLS and certificates, which reach each other through a relay in
this process. The relay resets each connection after a random time, even within a stanza. With
--kill, the second server is also killed and restarted. Each pair is a client on either server; the
two send each other numbers.

A message is lost if it neither arrives nor comes back as an error; it is in doubt if it does both,
as XEP-0198 allows when a server has died. Needs Python 3.11 and openssl. Exits with 1 if anything
was lost, doubled or out of order, or, without --kill, in doubt.
"""

import argparse
import asyncio
import logging
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from server import TABLES, Wire, spent
from rookery import Rookery

DOMAINS = ("one.test", "two.test")


class Relay:
    """Relays bytes to a port, over connections that are reset after a random time."""

    def __init__(self, port, life):
        self.port, self.life, self.deaths, self.calls = port, life, 0, 0

    async def start(self):
        self.server = await asyncio.start_server(self.carry, "127.0.0.1", 0)
        return self.server.sockets[0].getsockname()[1]

    async def carry(self, reader, writer):
        self.calls += 1
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.port)
        except ConnectionError:
            writer.transport.abort()
            return
        ways = [asyncio.create_task(self.pass_on(*way)) for way in ((reader, back), (there, writer))]
        life = random.expovariate(1 / self.life) if self.life else None
        done, _ = await asyncio.wait(ways, timeout=life, return_when=asyncio.FIRST_COMPLETED)
        self.deaths += not done
        for way in ways:
            way.cancel()
        for end in (writer, back):
            # A reset discards the buffers of both sides.
            end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            end.transport.abort()

    async def pass_on(self, reader, writer):
        try:
            while heard := await reader.read(65536):
                writer.write(heard)
                await writer.drain()
        except ConnectionError:
            pass


class Talker:
    """A client that sends numbers to its partner on the other server, and records those that
    arrive.
    """

    def __init__(self, number, at):
        self.user, self.at = f"user{number}", at
        self.partner = f"{self.user}@{DOMAINS[1 - at]}"
        self.sent, self.arrived, self.returned, self.lags = 0, [], [], []
        self.wire = None

    async def live(self, server, until):
        while time.monotonic() < until:
            try:
                wire = Wire(server.port, DOMAINS[self.at])
                async with asyncio.timeout(10):
                    await wire.open(self.user, "<bind xmlns='urn:xmpp:bind:0'><tag>x</tag></bind>")
                wire.send("<presence/>")
                self.wire = wire
                while True:
                    await wire.more()
                    for kind, text in wire.items():
                        if kind == "message":
                            self.hear(text)
            except (ConnectionError, OSError, TimeoutError, AssertionError):
                self.wire = None
                await asyncio.sleep(0.3)

    def hear(self, stanza):
        head = stanza[: stanza.index(">")]
        if "type='error'" in head:
            self.returned.append(int(re.search(r" id='(\d+)'", head)[1]))
        elif found := re.search(r"<body>(\d+) ([\d.]+)</body>", stanza):
            self.arrived.append(int(found[1]))
            self.lags.append(time.monotonic() - float(found[2]))

    def speak(self):
        if self.wire and not self.wire.writer.transport.is_closing():
            body = f"<body>{self.sent} {time.monotonic()}</body>"
            self.wire.send(f"<message to='{self.partner}' type='chat' id='{self.sent}'>{body}</message>")
            self.sent += 1


def certificates(folder):
    """Makes an authority, and a certificate from it for each domain."""

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"]
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=tests")
    for domain in DOMAINS:
        openssl("req", *key, "-keyout", f"{domain}.key", "-out", f"{domain}.csr", "-subj", "/CN=x")
        (folder / "names").write_text(f"subjectAltName=DNS:{domain}\nextendedKeyUsage=serverAuth\n")
        signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30", "-extfile", "names"]
        openssl("x509", "-req", "-in", f"{domain}.csr", "-out", f"{domain}.pem", *signed)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def configure(server, at, folder, port, other):
    tables = (
        f"{TABLES}\n[tls]\ncertificate = \"{folder}/{DOMAINS[at]}.pem\"\nkey = \"{folder}/{DOMAINS[at]}.key\"\n"
        f"[federation]\nenabled = true\ntrusted = [\"{folder}/ca.pem\"]\nallow_private_addresses = true\n"
        f"routes = [\"{DOMAINS[1 - at]} 127.0.0.1:{other}\"]\n[modules.strangers]\nreceived_per_minute = 0\nabroad_per_hour = 0\ndomain_messages_per_minute = 0\n"
    )
    listen = f's2s = ["127.0.0.1:{port}"]\ns2s_tls = []'
    server.configure(top=f'domains = ["{DOMAINS[at]}"]', listen=listen, tables=tables)


async def main(options):
    random.seed(options.seed)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    kills = 0
    with tempfile.TemporaryDirectory(prefix="rookery-deaths-") as folder:
        folder = Path(folder)
        certificates(folder)
        ports = [free_port(), free_port()]
        relays = [Relay(port, options.life) for port in ports]
        reached = [await relay.start() for relay in relays]
        servers = [Rookery(), Rookery()]
        try:
            for at, server in enumerate(servers):
                configure(server, at, folder, ports[at], reached[1 - at])
                accounts = server.folder / "accounts.csv"
                accounts.write_text("".join(f"user{number}@{DOMAINS[at]},secret\n" for number in range(options.pairs)))
                server.command("user", "import", str(accounts), "--allow-short")
                await server.start()
            talkers = [[Talker(number, at) for number in range(options.pairs)] for at in (0, 1)]
            until = time.monotonic() + options.seconds
            after = until + 100
            lives = [
                asyncio.create_task(talker.live(servers[at], after)) for at in (0, 1) for talker in talkers[at]
            ]
            await asyncio.sleep(2)
            dies = time.monotonic() + (random.expovariate(1 / options.kill) if options.kill else 1e9)
            cpu_before = [spent(server.process.pid)[0] for server in servers]
            while time.monotonic() < until:
                for both in zip(*talkers):
                    for talker in both:
                        # A client may lose what it sends to a server that is killed.
                        if talker.at == 0 or not options.kill:
                            talker.speak()
                if time.monotonic() > dies:
                    kills += 1
                    servers[1].process.kill()
                    servers[1].process.wait()
                    await asyncio.sleep(random.choice((0, 1, 5)))
                    await servers[1].start()
                    dies = time.monotonic() + random.expovariate(1 / options.kill)
                await asyncio.sleep(1 / options.rate)
            for relay in relays:
                relay.life = None
            while time.monotonic() < after - 5 and any(open_ends(talkers)):
                await asyncio.sleep(0.5)
            cpu = [spent(server.process.pid)[0] for server in servers]
            for life in lives:
                life.cancel()
            for server in servers:
                await server.stop()
        finally:
            for server in servers:
                server._remove()
    return told(options, talkers, relays, kills, cpu, cpu_before)


def open_ends(talkers):
    for talker, partner in both_ways(talkers):
        yield talker.sent - len(set(partner.arrived) | set(talker.returned))


def both_ways(talkers):
    for one, other in zip(*talkers):
        yield one, other
        yield other, one


def told(options, talkers, relays, kills, cpu, cpu_before):
    sent = arrived = returned = lost = doubled = disordered = doubtful = 0
    lags = sorted(lag for talker in sum(talkers, []) for lag in talker.lags)
    for talker, partner in both_ways(talkers):
        there, back = set(partner.arrived), set(talker.returned)
        sent += talker.sent
        arrived += len(there)
        returned += len(back - there)
        lost += talker.sent - len(there | back)
        doubtful += len(there & back)
        doubled += len(partner.arrived) - len(there)
        disordered += sum(one > next_ for one, next_ in zip(partner.arrived, partner.arrived[1:]))
    deaths = sum(relay.deaths for relay in relays)
    calls = sum(relay.calls for relay in relays)
    print(f"{options.pairs} pairs, {options.seconds:.0f} s, seed {options.seed}")
    print(f"connections: {calls}, of these died: {deaths}; servers killed: {kills}")
    print(f"messages sent: {sent}, arrived: {arrived}, came back: {returned}, both: {doubtful}")
    print(f"lost: {lost}, doubled: {doubled}, out of order: {disordered}")
    if lags:
        print(f"time to arrive: median {lags[len(lags) // 2] * 1000:.1f} ms, longest {lags[-1]:.2f} s")
    if not kills:
        print("server's CPU: " + ", ".join(f"{now - before:.1f} s" for now, before in zip(cpu, cpu_before)))
    return 1 if lost or doubled or disordered or (doubtful and not kills) else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--rate", type=float, default=10, help="messages per second, in each direction")
    parser.add_argument("--life", type=float, default=3, help="average lifetime of a connection in seconds; 0 means unlimited")
    parser.add_argument("--kill", type=float, default=0, help="average seconds between deaths of the second server; 0 means never")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    sys.exit(asyncio.run(main(parser.parse_args())))
