"""People log in, and are refused."""

import asyncio
import base64
import re
import ssl

import slixmpp

from person import Person, Refused
from rookery import Rookery
from wire import Wire

HASHES = ("SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512")


async def starttls_is_verified():
    async with Rookery("alice") as server:
        async with Person(server, "alice@localhost") as alice:
            assert alice.cipher.version() == "TLSv1.3"
            assert alice.cipher.context.verify_mode == ssl.CERT_REQUIRED and alice.cipher.context.check_hostname
            assert alice.certificate() == server.certificate.read_text()
            assert alice.bare == "alice@localhost" and alice.jid.resource


async def direct_tls_is_verified():
    async with Rookery("alice") as server:
        async with Person(server, "alice@localhost", direct=True) as alice:
            assert alice.cipher.version() == "TLSv1.3" and alice.certificate() == server.certificate.read_text()
            assert "starttls" not in alice.client.features
            await alice.quiet()


async def who_does_not_trust_the_certificate_stays_out():
    async with Rookery("alice") as server:
        try:
            await Person(server, "alice@localhost", trust=None).login()
        except Refused as why:
            assert "CERTIFICATE_VERIFY_FAILED" in str(why), why
        else:
            raise AssertionError("the client trusts a certificate that it doesn't know")


async def a_client_that_tries_both_ports_finds_one():
    """slixmpp tries direct TLS first, even on the port of STARTTLS."""
    async with Rookery("alice") as server:
        for port in (server.port, server.tls_port):
            alice = Person(server, "alice@localhost")
            alice.client.enable_direct_tls = True
            alice.direct = port == server.tls_port
            alice.seen["connection_failed"].clear()
            started = alice.client.wait_until("session_start", 20)
            alice.client.connect("127.0.0.1", port)
            await started
            await alice.quiet()
            await alice.logout()


async def every_mechanism_works():
    async with Rookery("alice") as server:
        for mechanism in (*HASHES, "PLAIN"):
            for direct in (False, True):
                async with Person(server, "alice@localhost", mechanism=mechanism, direct=direct) as alice:
                    assert alice.client["feature_mechanisms"].mech.name == mechanism
                    await alice.quiet()


async def tls_1_2_works():
    """slixmpp insists on `tls-unique` there, which the server doesn't do, and goes on without
    channel binding.
    """
    async with Rookery("alice") as server:
        for direct in (False, True):
            alice = Person(server, "alice@localhost", tls=ssl.TLSVersion.TLSv1_2, direct=direct)
            async with alice:
                assert alice.cipher.version() == "TLSv1.2"


async def a_wrong_password_is_told():
    async with Rookery("alice") as server:
        for mechanism in (*HASHES, "PLAIN"):
            assert await _refusal(server, "alice@localhost", "wrong", mechanism) == "not-authorized"


async def an_unknown_account_is_told_the_same():
    async with Rookery("alice") as server:
        for mechanism in (*HASHES, "PLAIN"):
            assert await _refusal(server, "nobody@localhost", "secret", mechanism) == "not-authorized"


async def a_device_that_guesses_keeps_nobody_else_out():
    async with Rookery("alice", "bob", "carol") as server:
        async with Person(server, "alice@localhost"):
            pass
        assert await _guesses(server, "alice", 25) == ["not-authorized"] * 25
        assert await _guesses(server, "carol", 21) == ["not-authorized"] * 20 + ["temporary-auth-failure"]
        async with Person(server, "alice@localhost") as alice, Person(server, "bob@localhost") as bob:
            await alice.quiet()
            await bob.quiet()


async def _guesses(server, name, count):
    conditions = []
    for number in range(count):
        stream = await Wire.open(server)
        initial = base64.b64encode(f"\0{name}\0guess {number}".encode()).decode()
        stream.send(f"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{initial}</auth>")
        conditions.append(re.search(r"<failure[^>]*><([\w-]+)/>", await stream.until("</failure>"))[1])
        stream.abort()
    return conditions


async def passwords_may_be_anything():
    passwords = {"umlaut": "größe ☃ ｗｉｄｅ", "spaces": "a  b c", "xml": "<&>\"'", "scram": "a=b,c=2C"}
    async with Rookery() as server:
        for name, password in passwords.items():
            server.command("user", "add", f"{name}@localhost", "--password-stdin", "--allow-short", said=f"{password}\n")
            for mechanism in ("SCRAM-SHA-256", "PLAIN"):
                async with Person(server, f"{name}@localhost", password, mechanism=mechanism):
                    pass


async def addresses_may_have_any_letters():
    async with Rookery("jürgen", "птица") as server:
        async with Person(server, "JÜRGEN@LOCALHOST/Küche ☃") as one, Person(server, "птица@localhost") as other:
            assert one.jid == slixmpp.JID("jürgen@localhost/Küche ☃")
            one.write(other.bare, "hello")
            assert (await other.reads("hello", of="jürgen@localhost"))["from"].resource == "Küche ☃"


async def the_newer_of_two_with_one_resource_stays():
    async with Rookery("alice") as server:
        older = Person(server, "alice@localhost/desk")
        async with older, Person(server, "alice@localhost/desk") as newer:
            error = await older.take("stream_error", lambda _: True)
            assert error["condition"] == "conflict", error
            await older.take("disconnected", lambda _: True)
            older.client.cancel_connection_attempt()
            assert newer.jid == "alice@localhost/desk"
            await newer.quiet()


async def the_newer_is_refused_if_the_operator_wants_it():
    async with Rookery("alice", tables='[limits]\nconflict = "refuse-newer"') as server:
        async with Person(server, "alice@localhost/desk") as older:
            newer = Person(server, "alice@localhost/desk")
            answers = []
            newer.client.add_filter("in", lambda stanza: answers.append(stanza) or stanza)
            login = asyncio.create_task(newer.login())
            error = await newer.until(lambda: next((it for it in answers if it.name == "iq" and it["type"] == "error"), None))
            assert error["error"]["condition"] == "conflict", error
            login.cancel()
            await newer.logout()
            await older.quiet()


async def _refusal(server, jid, password, mechanism):
    try:
        async with Person(server, jid, password, mechanism=mechanism):
            return None
    except Refused as why:
        return str(why)
