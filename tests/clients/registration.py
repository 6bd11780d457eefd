"""Accounts that people make for themselves (XEP-0077)."""

from slixmpp.exceptions import IqError

from person import Person, Refused
from rookery import Rookery

REGISTER = "[modules.register]\nenabled = true\n"


async def nobody_can_register_by_default():
    async with Rookery() as server:
        assert await _register(server, "eve@localhost", "secret") == "not offered"
        await _is_refused(server, "eve@localhost", "secret")


async def people_register_where_it_is_on():
    async with Rookery("alice", tables=REGISTER) as server:
        assert await _register(server, "eve@localhost", "Geheim ☃") is None
        async with Person(server, "eve@localhost", "Geheim ☃") as eve, Person(server, "alice@localhost") as alice:
            eve.write(alice.bare, "I am new")
            await alice.reads("I am new", of="eve@localhost")
        assert await _register(server, "alice@localhost", "stolen account") == "conflict"
        assert await _register(server, "mallory@localhost", "short") == "not-acceptable"
        async with Person(server, "alice@localhost"):
            pass


async def passwords_are_changed():
    async with Rookery("alice", tables=REGISTER) as server:
        async with Person(server, "alice@localhost") as alice:
            await alice.client["xep_0077"].change_password("new & <better>", jid="localhost")
            await alice.quiet()
        await _is_refused(server, "alice@localhost", "secret")
        async with Person(server, "alice@localhost", "new & <better>"):
            pass


async def operators_change_passwords():
    async with Rookery("alice") as server:
        server.command("user", "passwd", "alice@localhost", "--password-stdin", said="new\n")
        await _is_refused(server, "alice@localhost", "secret")
        async with Person(server, "alice@localhost", "new"):
            pass


async def people_leave():
    async with Rookery("alice", tables=REGISTER) as server:
        alice = Person(server, "alice@localhost")
        async with alice:
            iq = alice.client.make_iq_set(ito="localhost")
            iq["register"]["remove"] = True
            # The answer or the end of the stream, whichever the client sees first.
            iq.send(callback=lambda _: None)
            await alice.take("disconnected", lambda _: True)
            alice.client.cancel_connection_attempt()
        await _is_refused(server, "alice@localhost", "secret")
        assert "alice@localhost" not in server.command("user", "list")


async def _register(server, jid, password):
    """Asks for an account as slixmpp does; returns why there is none."""
    person = Person(server, jid, password)
    outcome = []

    async def register(_):
        iq = person.client.Iq()
        iq["type"] = "set"
        iq["register"]["username"] = person.client.requested_jid.user
        iq["register"]["password"] = password
        try:
            await iq.send(timeout=20)
            outcome.append(None)
        except IqError as error:
            outcome.append(error.condition)

    person.client["xep_0077"].create_account = True
    person.client["xep_0077"].force_registration = False
    person.client.add_event_handler("register", register)
    person.client.connect("127.0.0.1", server.port)
    await person.until(lambda: outcome or person.seen["session_start"] or person.seen["failed_auth"])
    await person.logout()
    return outcome[0] if outcome else "not offered"


async def _is_refused(server, jid, password):
    try:
        async with Person(server, jid, password, mechanism="SCRAM-SHA-256"):
            raise AssertionError(f"{jid} gets in with {password}")
    except Refused as why:
        assert str(why) == "not-authorized", why
