"""Runs the programs in `examples` as their readers do."""

import asyncio
import json
import os
import re
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from person import PATIENCE, Person
from rookery import Rookery

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TIME = re.compile(r"\d\d:\d\d UTC")


async def the_bot_tells_the_time():
    async with Rookery("alice", "clock") as server:
        variables = {"PASSWORD": "secret", "HOST": "localhost", "PORT": str(server.port), "CA": str(server.certificate)}
        async with _running("bot.py", "clock@localhost", "garden@conference.localhost", **variables) as said:
            assert "is there" in await said()
            async with Person(server, "alice@localhost") as alice:
                alice.write("clock@localhost", "what time is it?")
                message = await alice.take("message", lambda it: it["from"].bare == "clock@localhost")
                assert TIME.fullmatch(message["body"]), message
                alice.client.register_plugin("xep_0045")
                await alice.client["xep_0045"].join_muc_wait("garden@conference.localhost", "alice", timeout=PATIENCE)
                alice.client.send_message(mto="garden@conference.localhost", mbody="clock, what time is it?", mtype="groupchat")
                message = await alice.take("message", lambda it: it["mucnick"] == "clock" and it["body"].startswith("alice: "))
                assert TIME.fullmatch(message["body"].removeprefix("alice: ")), message


async def the_component_rolls_dice():
    tables = '[component."dice.localhost"]\nsecret = "of the dice"\n'
    async with Rookery("alice", listen='components = ["127.0.0.1:0"]', tables=tables) as server:
        port = (await server.says(r"\S+:(\d+) \(components\)"))[1]
        async with _running("component.py", "dice.localhost", SECRET="of the dice", PORT=port) as said:
            assert "is served" in await said()
            async with Person(server, "alice@localhost") as alice:
                alice.write("6@dice.localhost", "roll")
                message = await alice.take("message", lambda it: it["from"].bare == "6@dice.localhost")
                assert 1 <= int(message["body"]) <= 6, message
                alice.write("none@dice.localhost", "roll")
                error = await alice.take("message_error", lambda it: it["from"].bare == "none@dice.localhost")
                assert error["error"]["condition"] == "item-not-found", error


async def the_shell_makes_an_account():
    async with Rookery("alice") as server:
        token = server.command("token", "add", "example", "--scope", "users:read,users:write").split()[-1]
        variables = {"TOKEN": token, "API": f"http://127.0.0.1:{server.web_port}"}
        for made in (True, False):
            command = [EXAMPLES / "api.sh", "localhost", "bob"]
            done = await asyncio.to_thread(
                subprocess.run, command, env=os.environ | variables, capture_output=True, text=True, timeout=PATIENCE
            )
            assert done.returncode == 0, done
            assert ("made bob@localhost" in done.stdout) == made, done
            assert "bob@localhost" in json.dumps(json.loads(done.stdout.splitlines()[-1])), done


@asynccontextmanager
async def _running(example, *arguments, **variables):
    process = await asyncio.create_subprocess_exec(
        sys.executable, EXAMPLES / example, *arguments, env=os.environ | variables, stdout=asyncio.subprocess.PIPE
    )

    async def said():
        return (await asyncio.wait_for(process.stdout.readline(), PATIENCE)).decode()

    try:
        yield said
    finally:
        process.terminate()
        await process.wait()
