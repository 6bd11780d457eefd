"""Measures the server's CPU time for a page of 50 anywhere in a large archive (XEP-0313).

    ROOKERY=target/release/rookery python3 tests/load/pages.py --messages 1000000 --pages 1000

Starts its own server on loopback with one account, whose archive is imported (XEP-0227):
conversations with a hundred contacts in turn, with half a minute between messages. Then it requests
pages from the archive's beginning, from its end and from times in between, of the whole archive and
of one conversation. Needs only Python 3.11.
"""

import argparse
import asyncio
import random
import time
from datetime import datetime, timedelta, timezone

from server import Wire, spent, started

BEGIN = datetime(2025, 1, 1, tzinfo=timezone.utc)
APART = timedelta(seconds=30)


def stamp(number):
    return (BEGIN + number * APART).strftime("%Y-%m-%dT%H:%M:%SZ")


# This word occurs in one of a hundred thousand messages.
RARE, EVERY = "nightingale", 100_000


def export(file, messages):
    with open(file, "w") as out:
        out.write(
            "<server-data xmlns='urn:xmpp:pie:0'><host jid='localhost'><user name='juliet' password='secret'><archive xmlns='urn:xmpp:pie:0#mam'>\n"
        )
        for number in range(messages):
            contact = f"contact{number % 100}@example.org"
            said = "Wherefore art thou? " * 6 + (RARE if number % EVERY == EVERY // 2 else str(number))
            out.write(
                f"<result xmlns='urn:xmpp:mam:2' id='m{number}'><forwarded xmlns='urn:xmpp:forward:0'><delay xmlns='urn:xmpp:delay' stamp='{stamp(number)}'/>"
                f"<message xmlns='jabber:client' to='juliet@localhost' from='{contact}/phone' type='chat' id='m{number}'><body>{said}"
                "</body></message></forwarded></result>\n"
            )
        out.write("</archive></user></host></server-data>\n")


async def ask(wire, field, value, rest):
    form = "<field var='FORM_TYPE'><value>urn:xmpp:mam:2</value></field>"
    form += f"<field var='{field}'><value>{value}</value></field>" if field else ""
    wire.send(
        f"<iq type='set' id='page'><query xmlns='urn:xmpp:mam:2'><x xmlns='jabber:x:data' type='submit'>{form}</x>"
        f"<set xmlns='http://jabber.org/protocol/rsm'><max>50</max>{rest}</set></query></iq>"
    )
    page = await wire.until("</fin></iq>")
    assert page.count("<result ") == 50, page[-500:]


async def search(wire, word, rest):
    """Searches for messages with a word (XEP-0431). Returns the number that came, and the RSM
    element that requests the page before these, or `None` if there is none.
    """
    field = "{urn:xmpp:fulltext:0}fulltext"
    wire.send(
        "<iq type='set' id='search'><query xmlns='urn:xmpp:mam:2'><x xmlns='jabber:x:data' type='submit'>"
        f"<field var='FORM_TYPE'><value>urn:xmpp:mam:2</value></field><field var='{field}'><value>{word}</value></field></x>"
        f"<set xmlns='http://jabber.org/protocol/rsm'><max>50</max>{rest}</set></query></iq>"
    )
    page = await wire.until("</fin></iq>")
    fin = page[page.rindex("<fin ") :]
    first = fin.partition("<first")[2].partition(">")[2].partition("<")[0]
    return page.count("<result "), None if "complete=" in fin else f"<before>{first}</before>"


async def measure(options):
    async with started() as server:
        file = server.folder / "export.xml"
        export(file, options.messages)
        begun = time.monotonic()
        server.command("user", "import", str(file), "--allow-short")
        print(f"{options.messages} messages imported in {time.monotonic() - begun:.0f} s", flush=True)
        file.unlink()
        await server.stop()
        await server.start()
        wire = Wire(server.port)
        await wire.open("juliet", "<bind xmlns='urn:xmpp:bind:0'><tag>desk</tag></bind>")
        somewhere = lambda: stamp(random.randrange(options.messages * 9 // 10))
        kinds = {
            "the first page": lambda: ("", "", ""),
            "the last page": lambda: ("", "", "<before/>"),
            "a page from some time on": lambda: ("start", somewhere(), ""),
            "the last page of a conversation": lambda: ("with", "contact7@example.org", "<before/>"),
        }
        for kind, query in kinds.items():
            before, _ = spent(server.process.pid)
            for _ in range(options.pages):
                await ask(wire, *query())
            after, held = spent(server.process.pid)
            print(f"{kind}: {(after - before) / options.pages * 1000:.2f} ms of CPU; the server has {held >> 20} MiB", flush=True)
        wire.cut()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--pages", type=int, default=1000)
    asyncio.run(measure(parser.parse_args()))
