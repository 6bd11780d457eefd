"""Uses the HTTP services: WebSocket for clients in browsers, its discovery, health, metrics."""

import asyncio
import base64
import json
import os
import re
import select
import socket
import ssl
import struct
import urllib.error
import urllib.request
import xml.etree.ElementTree as ElementTree

from person import PATIENCE, Person
from rookery import Rookery

BOSH = "http://jabber.org/protocol/httpbind"
EXAMPLE_KEY = "dGhlIHNhbXBsZSBub25jZQ=="
PLAIN = "plaintext_loopback = true\nplain_without_tls = true\n"


async def xmppjs_chats_over_websocket():
    await _chat("xmppjs")


async def strophe_chats_over_websocket():
    await _chat("strophe")


async def stanza_chats_over_websocket():
    await _chat("stanza")


async def the_bot_in_javascript_tells_the_time():
    async with Rookery("alice", "clock") as server:
        service = f"wss://localhost:{server.web_tls_port}/ws"
        environment = dict(os.environ, NODE_EXTRA_CA_CERTS=str(server.certificate), PASSWORD="secret", SERVICE=service)
        bot = await asyncio.create_subprocess_exec(
            "node", "bot.mjs", "clock@localhost", "garden@conference.localhost", cwd=os.environ["ROOKERY_NODE"], env=environment,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            said = await asyncio.wait_for(bot.stdout.readline(), PATIENCE)
            assert b"is there" in said, said
            async with Person(server, "alice@localhost") as alice:
                alice.write("clock@localhost", "what time is it?")
                message = await alice.take("message", lambda it: it["from"].bare == "clock@localhost")
                assert re.fullmatch(r"\d\d:\d\d UTC", message["body"]), message
        finally:
            bot.terminate()
            await bot.wait()


async def people_in_browsers_reach_people_who_are_not():
    async with Rookery("alice", "bob", tables=PLAIN) as server, Person(server, "bob@localhost") as bob:
        stream = _WebSocket(_upgraded(server, "/xmpp-websocket"))
        stream.login("alice")
        stream.say("<message xmlns='jabber:client' to='bob@localhost' type='chat'><body>hi</body></message>")
        assert (await bob.message())["body"] == "hi"


async def clients_find_the_websocket():
    async with Rookery("alice") as server:
        for scheme, port, expected in (("http", server.web_port, "ws"), ("https", server.web_tls_port, "wss")):
            status, headers, body = _get(server, f"{scheme}://localhost:{port}/.well-known/host-meta")
            assert status == 200 and headers["access-control-allow-origin"] == "*", (status, headers)
            link = ElementTree.fromstring(body)[0]
            assert link.get("rel") == "urn:xmpp:alt-connections:websocket"
            assert link.get("href") == f"{expected}://localhost:{port}/ws", body
            _, _, body = _get(server, f"{scheme}://localhost:{port}/.well-known/host-meta.json")
            assert json.loads(body)["links"][0]["href"] == f"{expected}://localhost:{port}/ws", body


async def the_port_for_browsers_serves_xmpp_by_alpn():
    async with Rookery("alice") as server:
        tls = _tls(server, server.web_tls_port, ["xmpp-client"])
        assert tls.selected_alpn_protocol() == "xmpp-client"
        header = "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>"
        tls.sendall(header.encode())
        assert b"SCRAM-SHA-256-PLUS" in _until(tls, b"</stream:features>")


async def health_and_metrics_are_told():
    async with Rookery("alice", tables=PLAIN) as server:
        base = f"http://127.0.0.1:{server.web_port}"
        assert _get(server, f"{base}/health/live")[::2] == (200, "live\n")
        status, _, told = _get(server, f"{base}/health/ready")
        # The disk of the machine may be nearly full.
        assert status == 200 and told.startswith("ready"), told
        stream = _WebSocket(_upgraded(server, "/ws"))
        stream.login("alice")
        status, headers, page = _get(server, f"{base}/metrics")
        assert status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4")
        assert 'rookery_sessions{domain="localhost",transport="websocket",tls="false"} 1\n' in page, page
        assert 'rookery_logins_total{outcome="succeeded"} 1\n' in page, page
        assert re.search(r"^rookery_stanzas_received_total\{kind=\"iq\"\} \d", page, re.M), page
        for name in ("X-Forwarded-For", "X-Real-IP", "Forwarded"):
            status, _, _ = _get(server, f"{base}/metrics", headers={name: "127.0.0.1"})
            assert status == 403, "by a proxy that nobody named, behind which anybody may be"


async def metrics_are_for_those_who_may():
    async with Rookery(tables="[web]\nmetrics_networks = []\n") as server:
        assert _get(server, f"http://127.0.0.1:{server.web_port}/metrics")[0] == 403


async def proxies_that_are_trusted_are_believed():
    tables = '[web]\ntrusted_proxies = ["127.0.0.1"]\nproxy_protocol = true\n'
    async with Rookery("alice", tables=tables) as server:
        port = server.web_port
        header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11" + struct.pack(">H4s4sHH", 12, bytes([192, 0, 2, 7]), bytes(4), 4000, 80)
        connection = socket.create_connection(("127.0.0.1", port), 10)
        connection.sendall(header + b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b" 403 " in _until(connection, b"\n"), "the client is not on this machine"
        connection = socket.create_connection(("127.0.0.1", port), 10)
        connection.sendall(b"GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n")
        try:
            assert _until(connection, b"nothing") == b"", "without the header the connection is closed"
        except ConnectionResetError:
            pass
        # The proxy says that the connection to it is encrypted, so login is offered as with TLS.
        connection = socket.create_connection(("127.0.0.1", port), 10)
        connection.sendall(header.replace(bytes([192, 0, 2, 7]), bytes([127, 0, 0, 1])))
        stream = _WebSocket(_upgrade(connection, "/ws", extra="X-Forwarded-For: 192.0.2.9\r\nX-Forwarded-Proto: https\r\n"))
        assert "SCRAM-SHA-256" in stream.open()


async def a_proxy_that_does_not_say_for_whom_opens_nothing():
    tables = PLAIN + '[web]\ntrusted_proxies = ["127.0.0.1"]\n'
    silent = [
        {},
        {"X-Real-IP": "198.51.100.1"},
        {"Forwarded": "for=198.51.100.1"},
        {"X-Forwarded-Proto": "https"},
        *({"X-Forwarded-For": told} for told in ("", "unknown", "198.51.100.1, unknown", "127.0.0.1, _hidden", "[2001:db8::1")),
    ]
    told = [{"X-Forwarded-For": address} for address in ("198.51.100.1", "198.51.100.1:80", "2001:db8::1", "[2001:db8::1]", "127.0.0.1, 198.51.100.1")]
    async with Rookery("alice", tables=tables) as server:
        base = f"http://127.0.0.1:{server.web_port}"
        for path in ("/admin/login", "/metrics", "/api/v1/openapi.json"):
            for headers in silent + told:
                assert _get(server, base + path, headers=headers)[0] == 403, (path, headers)
            assert _get(server, base + path, headers={"X-Forwarded-For": "127.0.0.1"})[0] == 200, path
        # A client whose address is unknown may not log in as if it were on this machine either.
        for extra, may in ((None, False), ("198.51.100.1", False), ("127.0.0.1", True)):
            connection = socket.create_connection(("127.0.0.1", server.web_port), 10)
            extra = f"X-Forwarded-For: {extra}\r\n" if extra else ""
            assert ("mechanism" in _WebSocket(_upgrade(connection, "/ws", extra=extra)).open()) == may, extra


async def names_that_nobody_knows_open_nothing():
    async with Rookery("alice", top='domains = ["localhost", "example.org"]', tables='[web]\nhosts = ["xmpp1.example.net"]\n') as server:
        base = f"http://127.0.0.1:{server.web_port}"
        for path in ("/admin/login", "/metrics", "/api/v1/openapi.json"):
            for host in ("evil.test", f"evil.test:{server.web_port}", "example.org.evil.test", "127.0.0.1.evil.test"):
                assert _get(server, base + path, headers={"Host": host})[0] == 403, (path, host)
            for host in ("localhost", f"127.0.0.1:{server.web_port}", "[::1]", "example.org", "upload.example.org", "xmpp1.example.net:443"):
                assert _get(server, base + path, headers={"Host": host})[0] == 200, (path, host)
        for host, told in (("example.org:5443", "example.org:5443"), ("evil.test", "localhost")):
            assert f"ws://{told}/ws" in _get(server, base + "/.well-known/host-meta", headers={"Host": host})[2]


async def pages_of_other_sites_are_kept_out():
    async with Rookery("alice", tables=PLAIN + '[web]\norigins = ["https://web.example"]\n') as server:
        def handshake(origin, host=None):
            connection = socket.create_connection(("127.0.0.1", server.web_port), 10)
            extra = f"Origin: {origin}\r\n" if origin else ""
            return connection, _handshake(connection, "/ws", replaced=f"Host: {host}" if host else "", extra=extra)

        for origin in ("https://evil.test", "null", "https://localhost.evil.test"):
            assert b" 403 " in handshake(origin)[1], origin
        own = f"localhost:{server.web_port}"
        # A page from a name that somebody pointed at this server is accepted like any other, but
        # not as one from this machine (DNS rebinding).
        for origin, host, is_here in (
            (None, None, True),
            (f"http://{own}", own, True),
            ("https://web.example", own, False),
            ("https://chat.localhost", own, False),
            (f"http://localhost:{server.port}", own, False),
            (f"http://evil.test:{server.web_port}", f"evil.test:{server.web_port}", False),
        ):
            connection, answer = handshake(origin, host)
            assert b" 101 " in answer, (origin, answer)
            assert ("mechanism" in _WebSocket(connection).open()) == is_here, origin


async def who_never_reads_keeps_nobody_out():
    tables = '[web]\nconnections = 10\ntrusted_proxies = ["127.0.0.1"]\nproxy_protocol = true\n[limits]\nconnections_per_address = 8\n'
    async with Rookery("alice", tables=tables) as server:
        silent = [_silent(server, _told("192.0.2.1")) for _ in range(12)] + [_silent(server, _told("192.0.2.2")) for _ in range(12)]
        # Connections beyond an address's limit are closed. When all places are taken, the address
        # with the most connections loses some to others.
        for address in (None, "198.51.100.1", "198.51.100.2", "198.51.100.3", "2001:db8::1", None):
            assert b" 200 " in _asked(server, address), address
        assert sum(not _is_closed(connection) for connection in silent) <= 10
        assert "all web connections are in use; the address with the most loses some" in server.log.read_text()


async def without_tls_no_password_is_asked_for():
    async with Rookery("alice") as server:
        assert "mechanism" not in _WebSocket(_upgraded(server, "/ws")).open()


async def what_is_no_handshake_is_refused():
    async with Rookery("alice") as server:
        base = f"http://127.0.0.1:{server.web_port}"
        status, headers, _ = _get(server, f"{base}/ws")
        assert status == 426 and headers["upgrade"] == "websocket"
        assert _get(server, f"{base}/../etc/passwd")[0] == 404
        assert _get(server, f"{base}/health/live", method="POST")[0] == 405
        for wrong in ("Sec-WebSocket-Protocol: chat", "Sec-WebSocket-Key: AAAA"):
            connection = socket.create_connection(("127.0.0.1", server.web_port), 10)
            assert b" 400 " in _handshake(connection, "/ws", replaced=wrong)
        connection = socket.create_connection(("127.0.0.1", server.web_port), 10)
        assert b" 426 " in _handshake(connection, "/ws", replaced="Sec-WebSocket-Version: 8")


async def floods_of_headers_are_refused():
    async with Rookery("alice") as server:
        for flood in (b"X-A: b\r\n" * 200, b"X-A: " + b"b" * 100_000 + b"\r\n"):
            connection = socket.create_connection(("127.0.0.1", server.web_port), 10)
            try:
                connection.sendall(b"GET /health/live HTTP/1.1\r\nHost: a\r\n" + flood + b"\r\n")
                assert b" 431 " in _until(connection, b"\r\n\r\n")
            except ConnectionError:
                pass  # The server closed the connection before the whole request was sent.
        assert _get(server, f"http://127.0.0.1:{server.web_port}/health/live")[0] == 200


async def who_is_slow_is_not_waited_for():
    body = f"<body rid='7' to='localhost' ver='1.6' xmlns='{BOSH}'/>".encode()
    slow = {
        "nothing at all": (False, b""),
        "a head, byte by byte": (False, b"GET /health/live HTTP/1.1\r\nHost: a\r\nX-Slow: "),
        "no second request": (False, b"GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n"),
        "no second request after one of BOSH": (False, b"POST /http-bind HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)),
        "half a request of BOSH": (False, b"POST /http-bind HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n<body"),
        "half a request to the API": (False, b"POST /api/v1/users HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n{"),
        "no handshake": (True, b""),
        "a handshake, byte by byte": (True, b"\x16\x03\x01\x02\x00\x01"),
    }
    async with Rookery("alice") as server:
        waits = [asyncio.to_thread(_drip, server.web_tls_port if tls else server.web_port, said) for tls, said in slow.values()]
        waits.append(asyncio.to_thread(_is_given_up, server))
        ended = dict(zip([*slow, "answers that nobody reads"], await asyncio.gather(*waits)))
        assert all(ended.values()), ended
        assert _get(server, f"http://127.0.0.1:{server.web_port}/health/live")[0] == 200


async def a_frame_of_forty_megabytes_is_refused_by_its_head():
    async with Rookery("alice") as server:
        stream = _WebSocket(_tls_upgraded(server))
        stream.open()
        stream.socket.sendall(struct.pack(">BBQ4s", 0x81, 0xFF, 40 << 20, b"mask"))
        assert "policy-violation" in stream.hear()
        assert "close" in stream.hear()
        assert stream.frame() == (8, struct.pack(">H", 1009))


async def files_are_shared():
    tables = '[modules.upload]\nurl = "https://localhost:0/upload"\n'
    async with Rookery("alice", "bob", tables=tables) as server, Person(server, "alice@localhost") as alice:
        picture = b"\x89PNG" + os.urandom(300_000)
        put = await _slot(server, alice, "tr\u00e8s cool.png", len(picture), "image/png")
        # A body with a byte less, one of another type, and one without a length.
        wrong = _put(server, put, picture[:-1], "image/png"), _put(server, put, picture, "text/html"), _put(server, put, iter([picture]), "image/png")
        assert wrong == (413, 415, 411), wrong
        assert _get(server, put)[0] == 404, "there is nothing yet"
        assert _put(server, put, picture, "image/png") == 201
        assert _put(server, put, picture, "image/png") == 409, "only once"
        status, headers, got = _get(server, put, binary=True)
        assert (status, got) == (200, picture) and headers["content-type"] == "image/png"
        assert headers["x-content-type-options"] == "nosniff" and "sandbox" in headers["content-security-policy"]
        status, headers, got = _get(server, put, headers={"Range": "bytes=4-9"}, binary=True)
        assert (status, got) == (206, picture[4:10]) and headers["content-range"] == f"bytes 4-9/{len(picture)}"
        assert _get(server, put, headers={"Range": "bytes=400000-"})[0] == 416
        base = put.rsplit("/", 1)[0]
        for other in (f"{base}/other.png", f"{base}/..%2f..%2frookery.db", base, put.replace("/upload/", "/upload/x")):
            assert _get(server, other)[0] == 404, other


async def pages_are_downloaded_not_shown():
    tables = '[modules.upload]\nurl = "https://localhost:0/upload"\n'
    async with Rookery("alice", tables=tables) as server, Person(server, "alice@localhost") as alice:
        page = b"<script>alert(1)</script>"
        put = await _slot(server, alice, "a.html", len(page), "text/html")
        assert _put(server, put, page, "text/html") == 201
        status, headers, _ = _get(server, put)
        assert status == 200 and headers["content-disposition"].startswith("attachment")
        assert "default-src 'none'" in headers["content-security-policy"]
        # A page of this server doesn't use an upload as a script or style either.
        for name, kind in (("a.js", "text/javascript"), ("a.css", "text/css"), ("a.svg", "image/svg+xml"), ("a.json", "application/json")):
            put = await _slot(server, alice, name, len(page), kind)
            assert _put(server, put, page, kind) == 201
            _, headers, _ = _get(server, put)
            assert headers["content-type"] == "application/octet-stream" and headers["x-content-type-options"] == "nosniff", headers


async def an_upload_that_breaks_off_can_be_repeated():
    tables = '[modules.upload]\nurl = "https://localhost:0/upload"\n'
    async with Rookery("alice", tables=tables) as server, Person(server, "alice@localhost") as alice:
        put = await _slot(server, alice, "a.bin", 1000, None)
        path = put.split("localhost", 1)[1].split("/", 1)[1]
        tls = _tls(server, server.web_tls_port, ["http/1.1"])
        tls.sendall(f"PUT /{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nonly this".encode())
        tls.close()
        for _ in range(200):
            status = _put(server, put, bytes(1000), None)
            if status != 409:
                break
            await asyncio.sleep(0.05)
        assert status == 201, status


def _told(address):
    """The PROXY protocol header for a client at this address; for `None`, of the proxy's own
    connection.
    """
    if address is None:
        return b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"
    if ":" in address:
        return b"\r\n\r\n\0\r\nQUIT\n\x21\x21" + struct.pack(">H16s16sHH", 36, socket.inet_pton(socket.AF_INET6, address), bytes(16), 4000, 80)
    return b"\r\n\r\n\0\r\nQUIT\n\x21\x11" + struct.pack(">H4s4sHH", 12, socket.inet_aton(address), bytes(4), 4000, 80)


def _asked(server, address, path="/health/live"):
    """The response to a client at this address; empty if its connection is closed."""
    try:
        with socket.create_connection(("127.0.0.1", server.web_port), 20) as connection:
            connection.sendall(_told(address) + f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            return _until(connection, b"nothing that would be said")
    except ConnectionError:
        return b""


def _is_given_up(server):
    """Returns whether the server closes the connection of a client that sends requests and doesn't
    read.
    """
    connection = _silent(server, b"")
    # The server waits half a minute for progress, and reading would be progress. The system may
    # report the end of the connection earlier.
    end = select.poll()
    end.register(connection, select.POLLRDHUP)
    end.poll(45_000)
    return _is_closed(connection)


def _silent(server, before):
    """A client that sends this first, then requests until its buffers are full, and never reads."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(20)
    connection.connect(("127.0.0.1", server.web_port))
    try:
        connection.sendall(before)
        connection.settimeout(0.1)
        while connection.send(b"GET /.well-known/host-meta HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000):
            pass
    except OSError:
        pass
    return connection


def _is_closed(connection):
    connection.settimeout(0.1)
    try:
        while connection.recv(65536):
            pass
        return True
    except TimeoutError:
        return False
    except ConnectionError:
        return True


async def _slot(server, person, name, size, kind):
    """The URL of an upload slot, with the server's port."""
    attributes = {"filename": name, "size": str(size), **({"content-type": kind} if kind else {})}
    iq = person.client.make_iq_get(ito="upload.localhost")
    iq.append(ElementTree.Element("{urn:xmpp:http:upload:0}request", attributes))
    reply = await iq.send(timeout=20)
    address = reply.xml.find(".//{urn:xmpp:http:upload:0}put").get("url")
    return address.replace("localhost:0/", f"localhost:{server.web_tls_port}/")


def _put(server, address, body, kind):
    trusted = ssl.create_default_context(cafile=server.certificate)
    headers = {"Content-Type": kind} if kind else {"Content-Type": "application/octet-stream"}
    request = urllib.request.Request(address, data=body, method="PUT", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20, context=trusted) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


async def _chat(library):
    # ROOKERY_NODE is the folder with the libraries and with the script that uses them.
    async with Rookery("alice", "bob") as server:
        environment = dict(os.environ, NODE_EXTRA_CA_CERTS=str(server.certificate))
        node = await asyncio.create_subprocess_exec(
            "node", "chat.mjs", library, f"wss://localhost:{server.web_tls_port}/ws", cwd=os.environ["ROOKERY_NODE"], env=environment,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await node.communicate()
        assert node.returncode == 0, said.decode()


def _get(server, address, *, method="GET", headers={}, binary=False):
    trusted = ssl.create_default_context(cafile=server.certificate)
    request = urllib.request.Request(address, method=method, headers=headers)
    try:
        answer = urllib.request.urlopen(request, timeout=20, context=trusted)
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        return answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read() if binary else answer.read().decode(errors="replace")


def _tls(server, port, protocols):
    trusted = ssl.create_default_context(cafile=server.certificate)
    trusted.set_alpn_protocols(protocols)
    return trusted.wrap_socket(socket.create_connection(("127.0.0.1", port), 20), server_hostname="localhost")


def _drip(port, said):
    """Sends this, and after an incomplete request one byte after another. Returns whether the
    server closes the connection.
    """
    is_whole = said.endswith((b"\r\n\r\n", b"/>"))
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.settimeout(1)
        # The server's longest patience is half a minute.
        for _ in range(50):
            try:
                connection.sendall(said)
                said = b"" if is_whole or not said else b"a"
                while connection.recv(65536):
                    pass
                return True
            except TimeoutError:
                pass
            except ConnectionError:
                return True
    return False


def _until(connection, end):
    heard = b""
    while end not in heard:
        more = connection.recv(65536)
        if not more:
            break
        heard += more
    return heard


def _handshake(connection, path, *, replaced="", extra=""):
    lines = {
        "Host": "localhost",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": EXAMPLE_KEY,
        "Sec-WebSocket-Protocol": "xmpp",
    }
    if replaced:
        lines.update([replaced.split(": ")])
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    connection.sendall(f"GET {path} HTTP/1.1\r\n{head}{extra}\r\n".encode())
    return _until(connection, b"\r\n\r\n")


def _upgrade(connection, path, *, extra=""):
    answer = _handshake(connection, path, extra=extra).decode().lower()
    assert " 101 " in answer and "sec-websocket-protocol: xmpp\r\n" in answer, answer
    assert "sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n" in answer, answer
    return connection


def _upgraded(server, path):
    return _upgrade(socket.create_connection(("127.0.0.1", server.web_port), 20), path)


def _tls_upgraded(server):
    return _upgrade(_tls(server, server.web_tls_port, ["h2", "http/1.1"]), "/ws")


class _WebSocket:
    """A client that sends exactly what it is given."""

    def __init__(self, connection):
        self.socket = connection
        self.input = b""

    def say(self, text):
        payload, mask = text.encode(), b"\x11\x22\x33\x44"
        masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
        head = struct.pack(">BB", 0x81, 0x80 | len(payload)) if len(payload) < 126 else struct.pack(">BBH", 0x81, 0xFE, len(payload))
        self.socket.sendall(head + mask + masked)

    def frame(self):
        first, second = self._take(2)
        length = struct.unpack(">H", self._take(2))[0] if second == 126 else second
        assert first & 0xF0 == 0x80 and length < 126 or second == 126, (first, second)
        return first & 0xF, self._take(length)

    def hear(self):
        opcode, payload = self.frame()
        assert opcode == 1, (opcode, payload)
        text = payload.decode()
        ElementTree.fromstring(text)
        return text

    def open(self):
        self.say("<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' to='localhost' version='1.0'/>")
        assert self.hear().startswith("<open ")
        return self.hear()

    def login(self, user):
        """Logs in with PLAIN, on loopback."""
        self.open()
        proof = base64.b64encode(f"\0{user}\0secret".encode()).decode()
        self.say(f"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{proof}</auth>")
        assert self.hear().startswith("<success")
        self.open()
        self.say("<iq xmlns='jabber:client' id='b' type='set'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>")
        assert "<jid>" in self.hear()

    def _take(self, count):
        while len(self.input) < count:
            more = self.socket.recv(65536)
            assert more, "the server has closed"
            self.input += more
        taken, self.input = self.input[:count], self.input[count:]
        return taken
