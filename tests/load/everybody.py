"""Measures the cost of a shared roster group of everybody (`@all@`): the server's CPU and memory
for each login, with few accounts and with many.

    ROOKERY=target/release/rookery python3 tests/load/everybody.py \\
        --accounts 10 1000 10000 --logins 200

Starts its own server on loopback for each number of accounts. Some of the accounts log in one after
another, request their roster, become available and stay. On any server, a roster of N contacts is N
items, and the presence of M contacts who are online is M stanzas; a login's cost beyond these must
not grow. Needs only Python 3.11.
"""

import argparse
import asyncio
import sys

from server import Wire, spent, started

GROUP = '\n[modules.shared_roster]\ngroups = ["Everybody: @all@"]\n'


async def log_in(port, user):
    wire = Wire(port)
    await wire.open(user, "<bind xmlns='urn:xmpp:bind:0'><tag>desk</tag></bind>")
    wire.send("<iq type='get' id='roster'><query xmlns='jabber:iq:roster'/></iq>")
    contacts = (await wire.until("</query></iq>")).count("<item ")
    wire.send("<presence/><iq type='get' id='alive'><ping xmlns='urn:xmpp:ping'/></iq>")
    while "id='alive'" not in wire.heard and 'id="alive"' not in wire.heard:
        await wire.more()
    wire.heard = ""
    return wire, contacts


async def drain(wires):
    """Reads the stanzas that have arrived, as clients do."""
    for wire in wires:
        try:
            async with asyncio.timeout(0.0005):
                await wire.more()
        except TimeoutError:
            pass
        wire.heard = ""


async def measure(accounts, logins):
    async with started(GROUP) as server:
        names = [f"user{number}" for number in range(accounts)]
        file = server.folder / "accounts.csv"
        file.write_text("".join(f"{name}@localhost,secret\n" for name in names))
        server.command("user", "import", str(file), "--allow-short")
        await server.stop()
        await server.start()
        await asyncio.sleep(5)
        pid, wires = server.process.pid, []
        cpu, memory = spent(pid)
        for name in names[:logins]:
            wire, contacts = await log_in(server.port, name)
            wires.append(wire)
            # The contacts are all other accounts, with the administrator from the first start.
            assert contacts == accounts, (contacts, accounts)
        await drain(wires)
        after, held = spent(pid)
        count = len(wires)
        print(f"{accounts:6} accounts, {count:4} logins: {(after - cpu) / count * 1000:6.2f} ms of CPU and {(held - memory) / count / 1024:6.1f} KiB each")
        for wire in wires:
            wire.cut()


async def main(options):
    for accounts in options.accounts:
        await measure(accounts, options.logins)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accounts", type=int, nargs="+", default=[10, 1000, 10_000])
    parser.add_argument("--logins", type=int, default=200)
    sys.exit(asyncio.run(main(parser.parse_args())))
