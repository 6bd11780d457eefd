#!/usr/bin/env python3
"""A component (XEP-0114): a program that serves all addresses of a name, as bridges to other
networks do.

    pip install slixmpp
    SECRET=… examples/component.py dice.localhost

rookery.toml has to contain:

    [component."dice.localhost"]
    secret = "…"

Each address at the name is a die: a message to 6@dice.localhost gets a number from 1 to 6 in reply.
HOST and PORT name the server, by default 127.0.0.1 and 5347.
"""

import asyncio
import os
import random
import sys

from slixmpp.componentxmpp import ComponentXMPP


class Dice(ComponentXMPP):
    def __init__(self, name, secret, host, port):
        super().__init__(name, secret, host, port)
        self.register_plugin("xep_0030")  # tells clients what it is
        self.plugin["xep_0030"].add_identity(category="component", itype="generic", name="Dice", jid=name)
        self.add_event_handler("session_start", lambda _: print(f"{name} is served", flush=True))
        self.add_event_handler("message", self.roll)

    def roll(self, message):
        # The component never replies to errors, or two programs would reply to each other for ever.
        if message["type"] == "error":
            return
        sides = message["to"].local
        if sides.isdecimal() and 2 <= int(sides) <= 1000:
            message.reply(str(random.randint(1, int(sides)))).send()
        else:
            error = message.reply()
            error["type"] = "error"
            error["error"]["condition"] = "item-not-found"
            error.send()


async def main(name):
    dice = Dice(name, os.environ["SECRET"], os.environ.get("HOST", "127.0.0.1"), int(os.environ.get("PORT", 5347)))
    dice.connect()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
