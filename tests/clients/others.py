"""Two more clients with their own XML, TLS and SASL: aioxmpp (Python, OpenSSL through pyOpenSSL)
and go-sendxmpp (Go).
"""

import asyncio
import hashlib
import os

import aiosasl
import aioxmpp
import OpenSSL.crypto
import OpenSSL.SSL
from aiosasl.channel_binding import ChannelBindingProvider

from person import Person
from rookery import Rookery


async def aioxmpp_logs_in_and_chats():
    async with Rookery("alice", "bob") as server:
        security = _security(server, aioxmpp.security_layer.PasswordSASLProvider(_password))
        alice = _aioxmpp(server, "alice@localhost", security)
        async with alice.connected(), Person(server, "bob@localhost") as bob:
            await _exchange(alice, bob)


async def aioxmpp_is_told_of_a_wrong_password():
    async with Rookery("alice") as server:
        security = _security(server, aioxmpp.security_layer.PasswordSASLProvider(_wrong_password))
        try:
            async with _aioxmpp(server, "alice@localhost", security).connected():
                raise AssertionError("a wrong password lets somebody in")
        except aiosasl.AuthenticationFailure as error:
            assert "not-authorized" in str(error), error


async def scram_plus_binds_the_channel():
    """No released client supports both of the server's channel bindings, so aioxmpp gets them from
    pyOpenSSL.
    """
    async with Rookery("alice", "bob") as server:
        for binding in (TlsServerEndPoint, TlsExporter):
            plus = Plus(binding)
            security = _security(server, plus)
            alice = _aioxmpp(server, "alice@localhost", security)
            async with alice.connected(), Person(server, "bob@localhost") as bob:
                assert plus.chosen.endswith("-PLUS"), plus.chosen
                await _exchange(alice, bob)


async def scram_plus_notices_another_channel():
    async with Rookery("alice") as server:
        try:
            async with _aioxmpp(server, "alice@localhost", _security(server, Plus(OtherChannel))).connected():
                raise AssertionError("a binding to another channel lets somebody in")
        except aiosasl.AuthenticationFailure as error:
            assert "not-authorized" in str(error), error


async def go_sendxmpp_sends_and_listens():
    async with Rookery("alice", "bob") as server:
        for options, port in ([], server.port), (["--tls"], server.tls_port):
            async with Person(server, "bob@localhost") as bob:
                code, said = await _go(server, "alice@localhost", "secret", port, *options, "bob@localhost", text="größe 🐦 <&>")
                assert code == 0, said
                message = await bob.message()
                assert (message["body"].strip(), message["from"].bare) == ("größe 🐦 <&>", "alice@localhost"), message
        code, said = await _go(server, "alice@localhost", "wrong", server.port, "bob@localhost", text="hello")
        assert code != 0 and "not-authorized" in said, said


def _aioxmpp(server, jid, security):
    override = [("127.0.0.1", server.port, aioxmpp.connector.STARTTLSConnector())]
    return aioxmpp.PresenceManagedClient(aioxmpp.JID.fromstr(jid), security, override_peer=override, max_initial_attempts=1)


async def _exchange(alice, bob):
    heard = asyncio.get_running_loop().create_future()
    dispatcher = alice.summon(aioxmpp.dispatcher.SimpleMessageDispatcher)
    dispatcher.register_callback(aioxmpp.MessageType.CHAT, None, heard.set_result)
    message = aioxmpp.Message(type_=aioxmpp.MessageType.CHAT, to=aioxmpp.JID.fromstr(bob.bare))
    message.body[None] = "größe 🐦 <&>"
    await alice.send(message)
    came = await bob.reads("größe 🐦 <&>", of="alice@localhost")
    bob.write(came["from"], "and back 🐦 <&>")
    answer = await asyncio.wait_for(heard, 20)
    assert answer.body.any() == "and back 🐦 <&>", answer


def _security(server, provider):
    def context(*_):
        context = OpenSSL.SSL.Context(OpenSSL.SSL.TLS_CLIENT_METHOD)
        context.load_verify_locations(str(server.certificate))
        return context

    return aioxmpp.security_layer.SecurityLayer(context, aioxmpp.security_layer.PKIXCertificateVerifier, True, [provider])


async def _password(jid, attempt):
    return "secret" if attempt == 0 else None


async def _wrong_password(jid, attempt):
    return "wrong"


async def _go(server, jid, password, port, *arguments, text):
    environment = {**os.environ, "HOME": str(server.folder), "SSL_CERT_FILE": str(server.certificate)}
    command = ["go-sendxmpp", "--username", jid, "--password", password, "--jserver", f"localhost:{port}", *arguments]
    pipes = {name: asyncio.subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
    process = await asyncio.create_subprocess_exec(*command, env=environment, **pipes)
    try:
        out, err = await asyncio.wait_for(process.communicate(text.encode()), 30)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, (out + err).decode()


class Plus(aioxmpp.security_layer.SASLProvider):
    """Logs in with SCRAM-*-PLUS over a kind of channel binding."""

    def __init__(self, binding):
        self.binding, self.chosen = binding, None

    async def execute(self, client_jid, features, xmlstream, tls_transport):
        async def credentials():
            return client_jid.localpart, "secret"

        mechanism = aiosasl.SCRAMPLUS(credentials, self.binding(tls_transport.get_extra_info("ssl_object")))
        _, token = self._find_supported(features, [mechanism])
        self.chosen = token[0]
        return await self._execute(aioxmpp.sasl.SASLXMPPInterface(xmlstream), mechanism, token)


class TlsServerEndPoint(ChannelBindingProvider):
    """RFC 5929 §4."""

    cb_name = b"tls-server-end-point"

    def __init__(self, connection):
        self.connection = connection

    def extract_cb_data(self):
        certificate = OpenSSL.crypto.dump_certificate(OpenSSL.crypto.FILETYPE_ASN1, self.connection.get_peer_certificate())
        return hashlib.sha256(certificate).digest()


class TlsExporter(ChannelBindingProvider):
    """RFC 9266."""

    cb_name = b"tls-exporter"

    def __init__(self, connection):
        self.connection = connection

    def extract_cb_data(self):
        return self.connection.export_keying_material(b"EXPORTER-Channel-Binding", 32, b"")


class OtherChannel(TlsExporter):
    """The binding of another channel, as a man in the middle would have it."""

    def extract_cb_data(self):
        return bytes(32)
