#!/usr/bin/env python3
"""A bot: an account that replies to messages, and speaks in rooms when it is spoken to.

    pip install slixmpp
    rookery user add clock@localhost
    PASSWORD=… examples/bot.py clock@localhost garden@conference.localhost

It tells the time. HOST and PORT are needed if the server can't be found by its domain; CA is a file
with the certificate to trust, such as the data folder's certs/self-signed.pem.
"""

import asyncio
import os
import sys
from datetime import datetime, timezone

import slixmpp

NICK = "clock"


class Bot(slixmpp.ClientXMPP):
    def __init__(self, jid, password, rooms):
        super().__init__(jid, password)
        self.rooms = rooms
        self.register_plugin("xep_0045")  # rooms
        self.register_plugin("xep_0199", {"keepalive": True})  # notices a lost connection, and reconnects
        self.add_event_handler("session_start", self.begin)
        self.add_event_handler("message", self.answer)
        self.add_event_handler("failed_all_auth", lambda _: sys.exit("the password is wrong"))

    async def begin(self, _):
        self.send_presence()
        # The server reports changes of the roster to clients that have requested it.
        await self.get_roster()
        for room in self.rooms:
            own, *_ = await self.plugin["xep_0045"].join_muc_wait(room, NICK, timeout=30)
            if 201 in own["muc"]["status_codes"]:
                # The room is new: the bot owns it, and accepts its default configuration.
                await self.plugin["xep_0045"].set_room_config(room, self.plugin["xep_0004"].make_form("submit"))
        print(f"{self.boundjid} is there", flush=True)

    def answer(self, message):
        now = f"{datetime.now(timezone.utc):%H:%M} UTC"
        if message["type"] in ("chat", "normal"):
            message.reply(now).send()
        elif message["type"] == "groupchat" and message["mucnick"] != NICK and NICK in message["body"]:
            self.send_message(mto=message["from"].bare, mbody=f"{message['mucnick']}: {now}", mtype="groupchat")


async def main(jid, *rooms):
    bot = Bot(jid, os.environ["PASSWORD"], rooms)
    if "CA" in os.environ:
        bot.ca_certs = os.environ["CA"]
    if "HOST" in os.environ:
        bot.connect(os.environ["HOST"], int(os.environ.get("PORT", 5222)))
    else:
        bot.connect()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
