"""Cuts connections at random under load, and checks that every message arrives once and in order,
in both directions.

    ROOKERY=target/release/rookery python3 tests/load/cuts.py --seconds 60 --pairs 40 --rate 20

Starts its own server on loopback. Each pair is a phone with stream management (XEP-0198) and a
desktop without it, which talk to each other. The phone's connection is cut at random moments, and
it returns by SASL2 with inline resumption. Needs only Python 3.11. Exits with 1 if anything was
lost, doubled or out of order.
"""

import argparse
import asyncio
import logging
import random
import re
import sys
import time
from collections import deque

from server import Wire, spent, started
class Talker:
    """A client that sends numbers and checks the numbers that arrive."""

    def __init__(self):
        self.sent, self.expected, self.wrong, self.lags = 0, 0, [], []

    def text(self, to):
        self.sent += 1
        return f"<message to='{to}' type='chat'><body>{self.sent - 1} {time.monotonic()}</body></message>"

    def hear(self, stanza):
        if found := re.search(r"<body>(\d+) ([\d.]+)</body>", stanza):
            if int(found[1]) != self.expected:
                self.wrong.append((self.expected, int(found[1])))
            self.expected = int(found[1]) + 1
            self.lags.append(time.monotonic() - float(found[2]))


class Desk(Talker):
    async def start(self, port, user):
        self.wire = Wire(port)
        await self.wire.open(user, "<bind xmlns='urn:xmpp:bind:0'><tag>desk</tag></bind>")
        self.wire.send("<presence/>")

    async def listen(self):
        while True:
            await self.wire.more()
            for kind, text in self.wire.items():
                if kind == "message":
                    self.hear(text)


class Phone(Talker):
    """A client that keeps the counters of XEP-0198 and resumes its session."""

    def __init__(self):
        super().__init__()
        self.cuts = self.replaced = 0

    async def start(self, port, user):
        self.port, self.user = port, user
        bind = "<bind xmlns='urn:xmpp:bind:0'><tag>phone</tag><enable xmlns='urn:xmpp:sm:3' resume='true'/></bind>"
        self.wire = Wire(port)
        success = await self.wire.open(user, bind)
        self.id = re.search(r"<enabled [^>]*?id='(\w+)'", success)[1]
        self.handled, self.acked, self.unacked = 0, 0, deque()
        self.say("<presence/>")

    def say(self, stanza):
        self.unacked.append(stanza)
        self.wire.send(stanza)

    def acknowledge(self, h):
        for _ in range(h - self.acked):
            self.unacked.popleft()
        self.acked = h

    def work(self):
        for kind, text in self.wire.items():
            if kind in ("message", "presence", "iq"):
                self.handled += 1
                self.hear(text)
            elif kind == "r":
                self.wire.send(f"<a xmlns='urn:xmpp:sm:3' h='{self.handled}'/>")
            elif kind == "a":
                self.acknowledge(int(re.search(r"h='(\d+)'", text)[1]))

    async def listen(self, until):
        while time.monotonic() < until:
            cut = asyncio.get_running_loop().time() + random.expovariate(2)
            try:
                while True:
                    async with asyncio.timeout_at(min(cut, until + 5)):
                        await self.wire.more()
                    self.work()
            except (TimeoutError, ConnectionError):
                pass
            if time.monotonic() >= until:
                return
            # Sometimes the old connection is still open when the new one begins.
            old = self.wire
            if random.random() < 0.2:
                self.replaced += 1
            else:
                old.cut()
            self.cuts += 1
            await asyncio.sleep(random.choice((0, 0, 0.05, 0.3)))
            await self.resume()
            old.cut()

    async def resume(self):
        wire = Wire(self.port)
        resume = f"<resume xmlns='urn:xmpp:sm:3' previd='{self.id}' h='{self.handled}'/>"
        success = await wire.open(self.user, resume)
        found = re.search(r"<resumed [^>]*?h='(\d+)'", success)
        assert found, success
        self.wire = wire
        self.acknowledge(int(found[1]))
        for stanza in self.unacked:
            wire.send(stanza)
        self.work()


async def pair(number, port, seconds, rate):
    """Runs a phone and a desktop. Returns both when everything has arrived or nothing arrives any
    more.
    """
    desk, phone = Desk(), Phone()
    await desk.start(port, f"desk{number}")
    await phone.start(port, f"phone{number}")
    until = time.monotonic() + seconds
    listening = asyncio.create_task(desk.listen())
    cutting = asyncio.create_task(phone.listen(until))
    while time.monotonic() < until:
        desk.wire.send(desk.text(f"phone{number}@localhost"))
        phone.say(phone.text(f"desk{number}@localhost"))
        await asyncio.sleep(random.expovariate(rate))
    await cutting
    await phone.resume()
    quiet = time.monotonic() + 20
    while (phone.expected, desk.expected) != (desk.sent, phone.sent) and time.monotonic() < quiet:
        try:
            async with asyncio.timeout(0.2):
                await phone.wire.more()
        except TimeoutError:
            pass
        phone.work()
    listening.cancel()
    return phone, desk


async def main(options):
    random.seed(options.seed)
    # asyncio warns about every write to a connection that was cut.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    users = [f"{role}{number}" for number in range(options.pairs) for role in ("desk", "phone")]
    async with started() as server:
        accounts = server.folder / "accounts.csv"
        accounts.write_text("".join(f"{user}@localhost,secret\n" for user in users))
        server.command("user", "import", str(accounts), "--allow-short")
        began = time.monotonic()
        pairs = [pair(number, server.port, options.seconds, options.rate) for number in range(options.pairs)]
        ended = await asyncio.gather(*pairs)
        took = time.monotonic() - began
        cpu, _ = spent(server.process.pid)
    sent = sum(talker.sent for both in ended for talker in both)
    heard = sum(phone.expected + desk.expected for phone, desk in ended)
    wrong = [wrong for both in ended for talker in both for wrong in talker.wrong]
    lags = sorted(lag for both in ended for talker in both for lag in talker.lags)
    cuts = sum(phone.cuts for phone, _ in ended)
    replaced = sum(phone.replaced for phone, _ in ended)
    print(f"{options.pairs} pairs, {took:.0f} s, seed {options.seed}")
    print(f"connections cut or replaced: {cuts}, of these replaced: {replaced}")
    print(f"messages sent: {sent}, arrived: {heard}, lost: {sent - heard}, doubled or out of order: {len(wrong)}")
    print(f"time to arrive: median {lags[len(lags) // 2] * 1000:.1f} ms, longest {lags[-1]:.2f} s; server's CPU: {cpu:.1f} s")
    return 1 if wrong or sent != heard else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--rate", type=float, default=20, help="messages per second, in each direction")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    sys.exit(asyncio.run(main(parser.parse_args())))
