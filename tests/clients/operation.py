"""Checks the effects of operators' actions on users."""

import json
import os
import re
import signal
import subprocess
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from person import Person, Refused, befriend
from rookery import Rookery

OWN = '[tls]\ncertificate = "own.pem"\nkey = "own.key"\n'


async def a_new_certificate_is_for_new_connections():
    async with Rookery("alice", "bob") as server:
        _make_certificate(server.folder)
        async with Person(server, "alice@localhost") as alice:
            server.configure(tables=OWN)
            await server.reload()
            new = server.folder / "own.pem"
            async with Person(server, "bob@localhost", trust=new) as bob:
                assert bob.certificate() == new.read_text() and alice.certificate() != bob.certificate()
                alice.write(bob.bare, "still here")
                await bob.reads("still here", of=alice.bare)
            async with Person(server, "bob@localhost", trust=new, direct=True) as bob:
                assert bob.certificate() == new.read_text()
            try:
                async with Person(server, "bob@localhost"):
                    raise AssertionError("the old certificate is still shown")
            except Refused as why:
                assert "CERTIFICATE_VERIFY_FAILED" in str(why), why
            assert not alice.seen["disconnected"]


async def a_certificate_that_is_renewed_is_taken_over_unasked():
    async with Rookery("alice") as server:
        _make_certificate(server.folder)
        server.configure(tables=OWN)
        await server.reload()
        new = server.folder / "own.pem"
        before = new.read_text()
        # The first configuration is invalid, and the current one stays.
        at = server.log.stat().st_size
        new.write_text("half")
        await server.says("the certificates stay as they were", at)
        new.write_text(before)
        await server.says("reloaded certificates", at)
        at = server.log.stat().st_size
        _make_certificate(server.folder)
        await server.says("reloaded certificates", at)
        async with Person(server, "alice@localhost", trust=new) as alice:
            assert alice.certificate() == new.read_text() != before


async def a_wrong_configuration_changes_nothing():
    async with Rookery("alice") as server:
        async with Person(server, "alice@localhost") as alice:
            server.configure(tables="[tls]\ncertificate = 'missing.pem'\nkey = 'missing.key'")
            server.send(signal.SIGHUP)
            await server.says("nothing was changed")
            await alice.quiet()
        async with Person(server, "alice@localhost"):
            pass


async def the_level_of_the_log_changes_at_once():
    async with Rookery("alice") as server:
        async with Person(server, "alice@localhost") as alice:
            for level, failures in (("info", 1), ("info,rookery_shard=off", 1), ("info", 2)):
                server.configure(tables=f'[log]\nlevel = "{level}"')
                await server.reload()
                try:
                    async with Person(server, "alice@localhost", "wrong", mechanism="SCRAM-SHA-256"):
                        raise AssertionError("a wrong password is right")
                except Refused:
                    assert server.log.read_text().count("a login failed") == failures, (level, server.log.read_text())
            assert "restart the server" not in server.log.read_text()
            await alice.quiet()


async def a_stop_is_announced():
    async with Rookery("alice", "bob") as server:
        async with Person(server, "alice@localhost") as alice, Person(server, "bob@localhost", direct=True) as bob:
            assert await server.stop(signal.SIGTERM) == 0
            for person in (alice, bob):
                error = await person.take("stream_error", lambda _: True)
                assert error["condition"] == "system-shutdown", error
                await person.take("disconnected", lambda _: True)
                person.client.cancel_connection_attempt()


async def what_was_acknowledged_survives_a_kill():
    async with Rookery("alice", "bob") as server:
        async with Person(server, "alice@localhost", managed=True) as alice:
            async with Person(server, "bob@localhost") as bob:
                await befriend(alice, bob)
            await alice.presence(bob.bare, "unavailable")
            await alice.client.update_roster(bob.bare, name="Robert", groups=["Friends"])
            for number in range(50):
                alice.write("bob@localhost", f"number {number}")
            await alice.acknowledged()
            assert await server.stop(signal.SIGKILL) == -signal.SIGKILL
        await server.start()
        async with Person(server, "alice@localhost") as alice, Person(server, "bob@localhost") as bob:
            item = alice.item("bob@localhost")
            assert (item["name"], item["groups"], item["subscription"]) == ("Robert", ["Friends"], "both")
            for number in range(50):
                assert (await bob.reads(f"number {number}", of="alice@localhost"))["delay"]["stamp"]
            await bob.quiet()
            assert not bob.seen["message"]
            await alice.presence(bob.jid)
            for person in alice, bob:
                person.client.register_plugin("xep_0313")
                page = await person.client["xep_0313"].retrieve(rsm={"max": 100})
                assert len(page["mam"]["results"]) == 50, page


async def new_accounts_need_no_restart():
    async with Rookery() as server:
        server.command("user", "add", "carol@localhost", "--password-stdin", "--allow-short", said="secret\n")
        async with Person(server, "carol@localhost"):
            pass


async def a_collector_of_traces_gets_spans_of_stanzas():
    requests = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            requests.append((self.path, self.headers["Authorization"], body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    collector = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{collector.server_port}/v1/traces"
    # Slow events would name the address that has waited.
    tables = f'[instruments]\nslow_ms = 0\n[traces]\nurl = "{url}"\nheader_file = "header"\nticks_per_minute = 6000'
    server = Rookery("alice", "bob", tables=tables)
    (server.folder / "header").write_text("Authorization: Bearer secret\n")
    try:
        async with server, Person(server, "alice@localhost") as alice, Person(server, "bob@localhost") as bob:
            spans = await _spans_of_a_message(requests, alice, bob)
            for path, authorization, body in requests:
                assert (path, authorization) == ("/v1/traces", "Bearer secret")
                assert b"never to be seen" not in body and b"alice" not in body
            with urllib.request.urlopen(f"http://127.0.0.1:{server.web_port}/metrics") as metrics:
                page = metrics.read().decode()
            told = re.search(r"^rookery_trace_spans_total (\d+)$", page, re.MULTILINE)
            assert int(told[1]) >= len(spans), page
            shown = json.loads(server.command("top", "--by", "stages", "--once", "--json"))
            rows = {row["name"]: row for row in shown["rows"]}
            assert rows["route"]["totals"]["calls"] > 0 and rows["write"]["totals"]["seconds"] > 0, shown
    finally:
        collector.shutdown()


async def _spans_of_a_message(requests, alice, bob):
    """Sends messages until one of them is in a span. Returns all spans, parsed with OpenTelemetry's
    own types.
    """
    for _ in range(60):
        for _ in range(100):
            alice.write(bob.bare, "never to be seen")
            await bob.reads("never to be seen", of=alice.bare)
        spans = {}
        for _, _, body in requests:
            request = ParseDict(json.loads(body), ExportTraceServiceRequest())
            (resource,) = request.resource_spans
            names = {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}
            assert names["service.name"] == "rookery", names
            spans.update((span.span_id, span) for span in resource.scope_spans[0].spans)
        for message in spans.values():
            below = {span.name for span in spans.values() if span.parent_span_id == message.span_id}
            if message.name == "message" and {"stamp", "route"} <= below:
                tick = spans[message.parent_span_id]
                assert tick.name == "tick" and not tick.parent_span_id, tick
                assert tick.start_time_unix_nano <= message.start_time_unix_nano <= message.end_time_unix_nano
                assert message.end_time_unix_nano <= tick.end_time_unix_nano and tick.trace_id == message.trace_id
                return spans
    raise AssertionError(f"no message in {len(requests)} requests")


def _make_certificate(folder):
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=localhost"
    files = ["-addext", "subjectAltName=DNS:localhost", "-keyout", folder / "own.key", "-out", folder / "own.pem"]
    subprocess.run([*command.split(), *files], check=True, capture_output=True, timeout=60)
    os.chmod(folder / "own.key", 0o600)
