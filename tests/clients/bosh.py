"""Uses BOSH (XEP-0124, XEP-0206), for clients in browsers without WebSocket, and resumes sessions
over both.

`@xmpp/client` is used over WebSocket only: version 0.14 has no BOSH.
"""

import asyncio
import base64
import gzip
import http.client
import json
import os
import signal
import ssl
import threading
import xml.etree.ElementTree as ElementTree
import zlib

from person import Person
from rookery import Rookery

PLAIN = "plaintext_loopback = true\nplain_without_tls = true\n"
BOSH = "http://jabber.org/protocol/httpbind"
SASL = "urn:ietf:params:xml:ns:xmpp-sasl"


async def strophe_chats_over_bosh():
    async with Rookery("alice", "bob") as server:
        await _node(server, "chat.mjs", "strophe", f"https://localhost:{server.web_tls_port}/http-bind")


async def stanza_chats_over_bosh():
    async with Rookery("alice", "bob") as server:
        await _node(server, "chat.mjs", "stanza", f"https://localhost:{server.web_tls_port}/http-bind")


async def strophe_chats_over_bosh_in_the_clear():
    async with Rookery("alice", "bob", tables=PLAIN) as server:
        await _node(server, "chat.mjs", "strophe", f"http://localhost:{server.web_port}/http-bind")


async def xmppjs_resumes_over_websocket():
    async with Rookery("alice", "bob") as server:
        await _node(server, "resume.mjs", "xmppjs", f"wss://localhost:{server.web_tls_port}/ws")


async def strophe_resumes_over_websocket():
    async with Rookery("alice", "bob") as server:
        await _node(server, "resume.mjs", "strophe", f"wss://localhost:{server.web_tls_port}/ws")


async def stanza_resumes_over_websocket():
    async with Rookery("alice", "bob") as server:
        await _node(server, "resume.mjs", "stanza", f"wss://localhost:{server.web_tls_port}/ws")


async def stanza_goes_on_over_bosh():
    async with Rookery("alice", "bob") as server:
        await _node(server, "resume.mjs", "stanza", f"https://localhost:{server.web_tls_port}/http-bind")


async def a_page_that_is_loaded_again_goes_on():
    async with Rookery("alice", "bob") as server:
        await _node(server, "resume.mjs", "strophe", f"https://localhost:{server.web_tls_port}/http-bind")


async def people_over_bosh_reach_people_who_are_not():
    async with Rookery("alice", "bob", tables=PLAIN) as server, Person(server, "bob@localhost") as bob:
        client = _Client(server)
        client.login("alice")
        client.ask("<message xmlns='jabber:client' to='bob@localhost' type='chat'><body>hi</body></message>", waits=True)
        assert (await bob.message())["body"] == "hi"


async def clients_find_bosh():
    async with Rookery("alice") as server:
        for tls, scheme in ((False, "http"), (True, "https")):
            port = server.web_tls_port if tls else server.web_port
            _, _, body = _request(server, "GET", "/.well-known/host-meta", tls=tls)
            links = {link.get("rel"): link.get("href") for link in ElementTree.fromstring(body)}
            assert links["urn:xmpp:alt-connections:xbosh"] == f"{scheme}://localhost:{port}/http-bind", links
            _, _, body = _request(server, "GET", "/.well-known/host-meta.json", tls=tls)
            links = {link["rel"]: link["href"] for link in json.loads(body)["links"]}
            assert links["urn:xmpp:alt-connections:xbosh"] == f"{scheme}://localhost:{port}/http-bind", links


async def answers_are_compressed_for_who_asks():
    async with Rookery("alice", tables=PLAIN + "[web]\nbosh_compression = true\n") as server:
        for coding, plain in (("gzip", gzip.decompress), ("deflate", zlib.decompress)):
            status, headers, body = _post(server, _create(), {"Accept-Encoding": coding})
            assert (status, headers["content-encoding"]) == (200, coding), headers
            assert "mechanisms" in plain(body).decode()
        _, headers, body = _post(server, _create(), {"Accept-Encoding": "gzip;q=0, br"})
        assert "content-encoding" not in headers and b"mechanisms" in body
        assert _post(server, gzip.compress(_create()), {"Content-Encoding": "gzip"})[0] == 415
    async with Rookery("alice") as server:
        assert "content-encoding" not in _post(server, _create(), {"Accept-Encoding": "gzip"})[1]


async def other_sites_may_use_it_as_the_operator_says():
    async with Rookery("alice", tables='[web]\norigins = ["*"]\n') as server:
        status, headers, _ = _request(server, "OPTIONS", "/http-bind", headers={"Origin": "https://a.example"})
        assert (status, headers["access-control-allow-origin"]) == (204, "*"), headers
        assert headers["access-control-allow-methods"] == "POST, OPTIONS"
        assert headers["access-control-allow-headers"] == "Content-Type"
        assert "access-control-allow-credentials" not in headers
    async with Rookery("alice", tables=PLAIN + '[web]\norigins = ["https://a.example"]\n') as server:
        # Pages of served domains are allowed too. A page from elsewhere isn't treated as this
        # machine, which may log in unencrypted.
        own = f"http://localhost:{server.web_port}"
        for origin, told, is_here in ((None, None, True), (own, own, True), ("https://a.example",) * 2 + (False,), ("https://chat.localhost",) * 2 + (False,)):
            status, headers, body = _post(server, _create(), {"Host": f"localhost:{server.web_port}", **({"Origin": origin} if origin else {})})
            assert status == 200 and headers.get("access-control-allow-origin") == told, (origin, headers)
            assert headers["vary"] == "Origin" and (b"mechanism" in body) == is_here, (origin, body)
        for origin in ("https://b.example", "http://a.example", "null", "https://a.example.evil.test"):
            for method in ("OPTIONS", "POST"):
                status, headers, _ = _request(server, method, "/http-bind", body=_create(), headers={"Origin": origin})
                assert status == 403 and "access-control-allow-origin" not in headers, (origin, status, headers)


async def what_is_no_request_is_refused():
    async with Rookery("alice") as server:
        status, headers, _ = _request(server, "GET", "/http-bind")
        assert (status, headers["allow"]) == (405, "POST, OPTIONS")
        for bad in (b"", b"\xff\xfe<body/>", b"<body/>", b"<body rid='1' xmlns='x'/>", b"\0" * 100):
            status, headers, body = _post(server, bad)
            assert (status, headers["content-type"]) == (200, "text/xml; charset=utf-8")
            assert ElementTree.fromstring(body).attrib == {"type": "terminate", "condition": "bad-request"}, body
        unknown = f"<body rid='7' sid='{'0' * 32}' xmlns='{BOSH}'/>".encode()
        assert ElementTree.fromstring(_post(server, unknown)[2]).get("condition") == "item-not-found"


async def bodies_are_bounded():
    async with Rookery("alice", tables=PLAIN) as server:
        large = f"<body rid='1' to='localhost' xmlns='{BOSH}'>".encode() + b" " * 1_000_000
        assert _post(server, large)[0] == 413
        client = _Client(server)
        client.login("alice")
        padded = f"<body rid='{client.rid}' sid='{client.sid}' xmlns='{BOSH}'>" + " " * 100_000 + "<presence xmlns='jabber:client'/></body>"
        assert _post(server, padded.encode())[0] == 200, "who is known may send more"
        assert _post(server, padded.encode().replace(b" " * 100_000, b" " * 1_000_000))[0] == 413
        client.rid += 1
        client.ask("<presence xmlns='jabber:client' type='unavailable'/>", waits=True)


async def a_content_type_means_nothing():
    async with Rookery("alice") as server:
        for kind in ("application/x-www-form-urlencoded", "text/plain", "image/png", "text/xml; charset=utf-16"):
            status, headers, body = _post(server, _create(), {"Content-Type": kind})
            assert status == 200 and b"features" in body and headers["content-type"] == "text/xml; charset=utf-8"
            assert headers["x-content-type-options"] == "nosniff"
        _, headers, _ = _post(server, _create("content='text/html'"))
        assert headers["content-type"] == "text/html" and "default-src 'none'" in headers["content-security-policy"]


async def a_session_outlives_its_connections():
    async with Rookery("alice", "bob", tables=PLAIN) as server, Person(server, "bob@localhost") as bob:
        client = _Client(server)
        client.login("alice")
        connection, wanted = client.begin("")
        connection.close()
        bob.client.send_message(mto=client.jid, mbody="one", mtype="chat")
        # The client repeats its request on another connection.
        assert "one" in await asyncio.to_thread(client.ask_again, wanted)
        bob.client.send_message(mto=client.jid, mbody="two", mtype="chat")
        assert "two" in await asyncio.to_thread(client.ask, "")
        assert "two" in client.ask_again(client.last), "and an answer as often as it is wanted"


async def requests_follow_each_other_on_a_connection():
    async with Rookery("alice", tables=PLAIN) as server:
        client = _Client(server)
        client.login("alice")
        page = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for tls in (False, True):
            said = [_raw(_create()), page, _raw(_create(), chunked=True), page, _raw(b"<body/>"), _raw(_create(), "Connection: close\r\n")]
            answers = await asyncio.to_thread(_exchange, server, b"".join(said), tls)
            found = [b"features" in body or body.strip() for _, body in answers]
            refused = f"<body xmlns='{BOSH}' type='terminate' condition='bad-request'/>".encode()
            assert found == [True, b"live", True, b"live", refused, True], answers
            assert b"connection: close" in answers[-1][0] and b"connection: close" not in answers[0][0], answers
            assert all(b"\r\ndate: " in head for head, _ in answers), answers
        old = _raw(_create()).replace(b"HTTP/1.1", b"HTTP/1.0")
        assert b"features" in (await asyncio.to_thread(_exchange, server, old))[0][1]
        # A request waits, and later ones on the connection take their turn after it.
        ask = f"<body rid='{client.rid}' sid='{client.sid}' xmlns='{BOSH}'/>".encode()
        away = f"<body rid='{client.rid + 1}' sid='{client.sid}' type='terminate' xmlns='{BOSH}'/>".encode()
        waiting = asyncio.create_task(asyncio.to_thread(_exchange, server, _raw(ask) + page + _raw(ask, "Connection: close\r\n")))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        _post(server, away)
        answers = await waiting
        assert [b"terminate" in body or body for _, body in answers] == [True, b"live\n", True], answers


async def proxies_are_believed_about_encryption():
    async with Rookery("alice", tables='[web]\ntrusted_proxies = ["127.0.0.1"]\n') as server:
        body = _post(server, _create())[2]
        assert b"features" in body and b"mechanism" not in body, "in the clear nobody is asked for a password"
        body = _post(server, _create(), {"X-Forwarded-For": "192.0.2.9", "X-Forwarded-Proto": "https"})[2]
        assert b"SCRAM-SHA-256" in body
        sid = ElementTree.fromstring(body).get("sid")
        ask = f"<body rid='1001' sid='{sid}' type='terminate' xmlns='{BOSH}'/>".encode()
        assert b"item-not-found" in _post(server, ask)[2], "a session that is encrypted stays so"


async def the_end_of_the_server_is_told():
    async with Rookery("alice", "bob", tables=PLAIN) as server, Person(server, "bob@localhost") as bob:
        client = _Client(server)
        client.login("alice")
        heard = []
        waiting = f"<message xmlns='jabber:client' to='{bob.bare}' type='chat'><body>I wait</body></message>"
        waits = threading.Thread(target=lambda: heard.append(client.ask(waiting)))
        waits.start()
        await bob.reads("I wait", of="alice@localhost")
        assert await server.stop(signal.SIGTERM) == 0
        waits.join(20)
        assert "system-shutdown" in heard[0], heard


async def it_can_be_switched_off():
    async with Rookery("alice", tables="[web]\nbosh = false\n") as server:
        assert _post(server, _create())[0] == 404
        assert b"xbosh" not in _request(server, "GET", "/.well-known/host-meta")[2]


async def _node(server, script, library, address):
    # ROOKERY_NODE is the folder with the libraries and with the scripts that use them.
    environment = dict(os.environ, NODE_EXTRA_CA_CERTS=str(server.certificate))
    node = await asyncio.create_subprocess_exec(
        "node", script, library, address, cwd=os.environ["ROOKERY_NODE"], env=environment,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await node.communicate()
    assert node.returncode == 0, said.decode()


def _create(attributes=""):
    return (
        f"<body rid='1000' to='localhost' hold='1' wait='60' ver='1.6' xmpp:version='1.0' {attributes} "
        f"xmlns='{BOSH}' xmlns:xmpp='urn:xmpp:xbosh'/>"
    ).encode()


def _request(server, method, path, *, body=None, headers={}, tls=False):
    connection = _connect(server, tls)
    try:
        connection.request(method, path, body, headers)
    except ConnectionError:
        pass  # The response arrived before the whole request was sent.
    return _answer(connection)


def _post(server, body, headers={}):
    return _request(server, "POST", "/http-bind", body=body, headers=headers)


def _connect(server, tls=False):
    if not tls:
        return http.client.HTTPConnection("localhost", server.web_port, timeout=30)
    trusted = ssl.create_default_context(cafile=server.certificate)
    return http.client.HTTPSConnection("localhost", server.web_tls_port, timeout=30, context=trusted)


def _answer(connection):
    answer = connection.getresponse()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


def _raw(body, lines="", chunked=False):
    """The bytes of a request."""
    head = f"POST /http-bind HTTP/1.1\r\nHost: localhost\r\n{lines}"
    if chunked:
        middle = len(body) // 2
        parts = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:middle], body[middle:], b""))
        return f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + parts
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _exchange(server, said, tls=False):
    """Sends everything and reads until the server closes the connection. Returns heads, in lower
    case, and bodies.
    """
    connection = _connect(server, tls)
    connection.connect()
    connection.sock.sendall(said)
    heard = b""
    while more := connection.sock.recv(65536):
        heard += more
    connection.close()
    answers = []
    while heard:
        head, _, rest = heard.partition(b"\r\n\r\n")
        head = head.lower() + b"\r\n"
        length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
        answers.append((head, rest[:length]))
        heard = rest[length:]
    return answers


class _Client:
    """A client that sends exactly what it is given."""

    def __init__(self, server):
        self.server, self.rid = server, 1000
        self.sid = self.jid = self.last = None

    def login(self, user):
        """Logs in with PLAIN, on loopback."""
        self.rid += 1
        _, _, body = _post(self.server, _create())
        self.sid = ElementTree.fromstring(body).get("sid")
        proof = base64.b64encode(f"\0{user}\0secret".encode()).decode()
        assert "<success" in self.ask(f"<auth xmlns='{SASL}' mechanism='PLAIN'>{proof}</auth>")
        assert "bind" in self.ask("", "xmpp:restart='true' to='localhost' xmlns:xmpp='urn:xmpp:xbosh'")
        bound = self.ask("<iq xmlns='jabber:client' id='b' type='set'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>")
        self.jid = bound.split("<jid>")[1].split("<")[0]

    def ask(self, content, attributes="", *, waits=False):
        """Sends a request and returns the response; with `waits`, leaves the connection open
        instead.
        """
        connection, _ = self.begin(content, attributes)
        # The connection is kept: if it closed before the server has read the request, that may
        # never have been sent.
        self.left = connection if waits else None
        return None if waits else _answer(connection)[2].decode()

    def begin(self, content, attributes=""):
        self.last = f"<body rid='{self.rid}' sid='{self.sid}' {attributes} xmlns='{BOSH}'>{content}</body>".encode()
        self.rid += 1
        connection = _connect(self.server)
        connection.request("POST", "/http-bind", self.last)
        return connection, self.last

    def ask_again(self, request):
        return _post(self.server, request)[2].decode()
