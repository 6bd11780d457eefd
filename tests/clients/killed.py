"""What people notice when the nodes of a cluster are killed. These scenarios need several nodes, so
`run.py` doesn't list them; `server/tests/clients/behind.rs` runs them.
"""

import asyncio

from chromium import Chromium
from pages import EDITOR, _install, _sign_in, _talk
from rookery import Rookery


async def two_people_chat_in_browsers():
    async with Rookery("alice", "bob") as server, Chromium(server) as chromium:
        _install(server)
        for node in server.others:
            (node.folder / "rookery-data/web").symlink_to(server.folder / "rookery-data/web")
        alice = await _sign_in(chromium, server, "alice")
        bob = await _sign_in(chromium, server, "bob")
        await _talk(alice, bob)
        # Each page loses its connection at least once, and each account its home.
        for number in range(3):
            await server.kill(number)
            # What is typed while the client logs in again isn't sent.
            await asyncio.sleep(TAKEN_OVER)
            for one, other, text in ((alice, bob, f"to bob {number}"), (bob, alice, f"to alice {number}")):
                await one.type(EDITOR, text, enter=True)
                await other.sees(text, ".chat-msg__text")
            await server.start_again(number)


# The seconds after which others have taken over from a node, and its clients are back.
TAKEN_OVER = 8
