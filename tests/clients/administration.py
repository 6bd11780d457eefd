"""Administers the server from clients (XEP-0050, XEP-0133), and invites people (XEP-0401,
XEP-0445).
"""

import asyncio

from slixmpp.exceptions import IqError

from person import Person, is_refused
from rookery import Rookery

ADMIN = '[modules.administration]\nadmins = ["admin@localhost"]\n'
INVITING = "[modules.register]\nusers_invite = true\n"
NODE = "http://jabber.org/protocol/admin#"


async def administrators_see_commands_and_others_none():
    async with Rookery("admin", "alice", tables=ADMIN) as server:
        async with Person(server, "admin@localhost") as admin, Person(server, "alice@localhost") as alice:
            assert NODE + "add-user" in await _commands(admin)
            assert not any(node.startswith(NODE) for node in await _commands(alice))
            try:
                await _run(alice, NODE + "get-online-users-num")
            except IqError as error:
                assert error.condition == "forbidden", error
            else:
                raise AssertionError("anybody can ask who is here")


async def accounts_are_made_disabled_and_removed():
    async with Rookery("admin", tables=ADMIN) as server:
        async with Person(server, "admin@localhost") as admin:
            form = {"accountjid": "bob@localhost", "password": "geheim12", "password-verify": "geheim12"}
            await _run(admin, NODE + "add-user", form)
            bob = Person(server, "bob@localhost", "geheim12")
            async with bob:
                numbers = await _run(admin, NODE + "get-online-users-num")
                assert numbers["form"].get_values()["onlineusersnum"] == "2", numbers
                await _run(admin, NODE + "disable-user", {"accountjids": ["bob@localhost"]})
                await bob.until(lambda: bob.seen["disconnected"])
            await is_refused(server, "bob@localhost", "geheim12", "account-disabled")
            await _run(admin, NODE + "reenable-user", {"accountjids": ["bob@localhost"]})
            async with Person(server, "bob@localhost", "geheim12"):
                pass
            await _run(admin, NODE + "delete-user", {"accountjids": ["bob@localhost"]})
            await is_refused(server, "bob@localhost", "geheim12", "not-authorized")


async def announcements_reach_users():
    async with Rookery("admin", "alice", "bob", tables=ADMIN) as server:
        async with Person(server, "admin@localhost") as admin, Person(server, "alice@localhost") as alice:
            await _run(admin, NODE + "announce", {"announcement": ["Log off", "now"]})
            await alice.reads("Log off\nnow", of="localhost")
            await _run(admin, NODE + "set-motd", {"motd": ["Good morning"]})
            await alice.reads("Good morning", of="localhost")
            async with Person(server, "bob@localhost") as bob:
                await bob.reads("Good morning", of="localhost")
            await _run(admin, NODE + "edit-blacklist", {"blacklistjids": ["spam.example"]})
        log = server.log.read_text()
        for act in ("sent an announcement: Log off now", "set the message of the day: Good morning", "changed the blacklist: 1 entries"):
            assert f"an administrator: {act}" in log, log


async def announcements_are_sent_as_messages():
    """Announcements are sent to addresses of the domain, with any client that can send a
    message.
    """
    async with Rookery("admin", "alice", "bob", tables=ADMIN) as server:
        async with Person(server, "admin@localhost") as admin, Person(server, "alice@localhost") as alice:
            admin.write("localhost/announce/online", "Maintenance at noon", mtype="normal")
            await alice.reads("Maintenance at noon", of="localhost")
            admin.write("localhost/announce/all", "For everybody", mtype="normal")
            await alice.reads("For everybody", of="localhost")
            admin.write("localhost/announce/motd", "One", mtype="normal")
            await alice.reads("One", of="localhost")
            admin.write("localhost/announce/motd/update", "Two", mtype="normal")
            await admin.quiet()
            async with Person(server, "bob@localhost") as bob:
                heard = {(await bob.message())["body"], (await bob.message())["body"]}
                assert heard == {"For everybody", "Two"}, heard
            async with Person(server, "bob@localhost") as bob:
                await bob.quiet()
                assert not bob.seen["message"], "he has heard all of it"
            admin.write("localhost/announce/motd/delete", "", mtype="normal")
            alice.write("localhost/announce/all", "Buy!", mtype="normal")
            refused = await alice.take("message_error", lambda _: True)
            assert refused["error"]["condition"] == "forbidden", refused
            await alice.quiet()
            assert not alice.seen["message"], "who has the message of the day doesn't hear of its change"


async def an_end_is_announced():
    async with Rookery("admin", "alice", tables=ADMIN) as server:
        async with Person(server, "admin@localhost") as admin, Person(server, "alice@localhost") as alice:
            await _run(admin, NODE + "shutdown", {"delay": "0", "announcement": ["Bye"]})
            await alice.reads("Bye", of="localhost")
            await alice.until(lambda: alice.seen["disconnected"])
        # The server ends by itself: a signal now would be its second one.
        await asyncio.get_running_loop().run_in_executor(None, server.process.wait, 30)


async def a_restart_is_one():
    async with Rookery("admin", "alice", tables=ADMIN) as server:
        async with Person(server, "admin@localhost") as admin, Person(server, "alice@localhost") as alice:
            at = server.log.stat().st_size
            await _run(admin, NODE + "restart", {"delay": "0", "announcement": ["Back soon"]})
            await alice.reads("Back soon", of="localhost")
            for person in (admin, alice):
                await person.until(lambda: person.seen["disconnected"])
                person.client.cancel_connection_attempt()
            await server.listens(at)
        async with Person(server, "alice@localhost"):
            pass


async def nobody_is_refused_during_a_restart():
    async with Rookery("admin", tables=ADMIN) as server:
        before = (server.port, server.tls_port, server.web_port, server.web_tls_port)
        streams = []

        async def knock():
            # A client that connects while no process accepts waits for the next one; a refusal
            # would be raised here.
            while True:
                streams.append(await asyncio.open_connection("127.0.0.1", server.port))
                await asyncio.sleep(0.005)

        async with Person(server, "admin@localhost") as admin:
            at = server.log.stat().st_size
            knocking = asyncio.ensure_future(knock())
            await _run(admin, NODE + "restart", {"delay": "0"})
            await admin.until(lambda: admin.seen["disconnected"])
            admin.client.cancel_connection_attempt()
            await server.listens(at)
        knocking.cancel()
        assert (await asyncio.gather(knocking, return_exceptions=True))[0].__class__ is asyncio.CancelledError, knocking
        assert (server.port, server.tls_port, server.web_port, server.web_tls_port) == before
        assert "isn't in [listen]" not in server.log.read_text(), server.log.read_text()
        reader, writer = streams[-1]
        writer.write(b"<stream:stream to='localhost' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>")
        async with asyncio.timeout(20):
            await reader.readuntil(b"</stream:features>")
        for _, writer in streams:
            writer.close()


async def removal_on_the_command_line_ends_sessions():
    async with Rookery("alice") as server:
        alice = Person(server, "alice@localhost")
        async with alice:
            server.command("user", "remove", "alice@localhost")
            await alice.until(lambda: alice.seen["disconnected"])


async def links_are_made_on_the_command_line():
    async with Rookery("alice", tables=INVITING) as server:
        link = server.command("user", "invite", "eve@localhost").strip()
        assert link.startswith("xmpp:eve@localhost?register;preauth="), link
        async with Person(server, "alice@localhost") as alice:
            answer = await _run(alice, "urn:xmpp:invite#invite")
            uri = answer["form"].get_values()["uri"]
            assert uri.startswith("xmpp:alice@localhost?roster;preauth=") and uri.endswith(";ibr=y"), uri


async def _commands(person):
    _plug(person)
    items = await person.client["xep_0050"].get_commands("localhost")
    return [node for _, node, _ in items["disco_items"]["items"]]


async def _run(person, node, fields=None):
    """Runs a command with these fields in its form. Returns its last response."""
    _plug(person)
    command = (await person.client["xep_0050"].send_command("localhost", node, timeout=20))["command"]
    if command["status"] == "executing":
        form = person.client["xep_0004"].make_form(ftype="submit")
        for name, value in (fields or {}).items():
            form.add_field(var=name, value=value)
        answer = await person.client["xep_0050"].send_command(
            "localhost", node, action="complete", payload=form, sessionid=command["sessionid"], timeout=20
        )
        command = answer["command"]
    assert command["status"] == "completed", command
    return command


def _plug(person):
    for plugin in ("xep_0004", "xep_0050"):
        person.client.register_plugin(plugin)
