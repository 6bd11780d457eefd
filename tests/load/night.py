"""Causes the faults that wake an operator at three in the morning, one after another, and checks
how the server reports and survives each.

    ROOKERY=target/release/rookery python3 tests/load/night.py

Each row is its own server on loopback. Needs root (for small disks) and Python's `cryptography`.
Exits with 1 if a row isn't as it should be, and with 75 if rows only ran out of time.
"""

import asyncio
import datetime
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from server import Wire, started
from rookery import BINARY, Rookery

BINARY = os.path.abspath(BINARY)
ROWS = []


def row(name):
    def taken(function):
        ROWS.append((name, function))
        return function
    return taken


def ask(server, *words, data="rookery-data"):
    done = subprocess.run(
        [BINARY, "--config", "rookery.toml", "--data-dir", data, *words], cwd=server.folder, capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


def get(server, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.web_port}{path}") as answer:
            return answer.status, answer.read().decode().strip()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode().strip()


def told(server):
    return server.log.read_text()


async def wait(test, seconds=20):
    end = time.monotonic() + seconds
    while not (found := test()):
        if time.monotonic() > end:
            raise TimeoutError("the expected state never came")
        await asyncio.sleep(0.1)
    return found


def certificate(folder, name, days):
    key = ec.generate_private_key(ec.SECP256R1())
    named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=days)
    made = x509.CertificateBuilder().subject_name(named).issuer_name(named).public_key(key.public_key()).serial_number(1)
    made = made.not_valid_before(end - datetime.timedelta(days=90)).not_valid_after(end)
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), False).sign(key, hashes.SHA256())
    (folder / "own.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "own.key").write_bytes(private)
    (folder / "own.key").chmod(0o600)


@row("kill -9 and a restart")
async def killed():
    async with started() as server:
        server.command("user", "add", "alice@localhost", "--password-stdin", "--allow-short", said="secret\n")
        alice = Wire(server.port)
        await alice.open("alice", "<bind xmlns='urn:xmpp:bind:0'><enable xmlns='urn:xmpp:sm:3'/></bind>")
        alice.send("<presence to='dinner@conference.localhost/alice'><x xmlns='http://jabber.org/protocol/muc'/></presence>")
        await alice.until("code='201'", 'code="201"')
        alice.send("<message type='groupchat' to='dinner@conference.localhost'><body>soup</body></message>")
        await alice.until("soup")
        # What is acknowledged is stored (XEP-0198): the archive gathers messages for a second.
        while True:
            alice.send("<r xmlns='urn:xmpp:sm:3'/>")
            if re.search(r"<a [^>]*h='2'", await alice.until("</a>", "h='1'/>", "h='2'/>")):
                break
            await asyncio.sleep(0.1)
        server.process.kill()
        server.process.wait()
        begun = time.monotonic()
        await server.start()
        seconds = time.monotonic() - begun
        assert "alice@localhost" in ask(server, "user", "list")[1]
        assert "dinner@conference.localhost" in ask(server, "room", "list")[1]
        alice = Wire(server.port)
        await alice.open("alice", "<bind xmlns='urn:xmpp:bind:0'/>")
        alice.send("<presence to='dinner@conference.localhost/alice'><x xmlns='http://jabber.org/protocol/muc'/></presence>")
        await alice.until("soup")
        return f"up in {seconds:.1f} s, the account is complete, the room in which somebody had spoken is there, with what was said"


@row("backup while it runs")
async def backed_up():
    async with started() as server:
        code, said = ask(server, "backup", "all.tar.gz")
        assert code == 0, said
        mode = stat.S_IMODE((server.folder / "all.tar.gz").stat().st_mode)
        listed = subprocess.run(["tar", "tzf", "all.tar.gz"], cwd=server.folder, capture_output=True, text=True).stdout
        assert mode == 0o600 and "rookery.toml" in listed and ".db" in listed and "certs" in listed, (oct(mode), listed)
        return f"one command, one file, mode {mode:o}: database, certificates, configuration"


@row("restore into a new folder")
async def restored():
    async with started() as server:
        for name in ("alice", "bob"):
            server.command("user", "add", f"{name}@localhost", "--password-stdin", "--allow-short", said="secret\n")
        assert ask(server, "backup", "all.tar.gz")[0] == 0
        await server.stop()
        code, said = ask(server, "restore", "all.tar.gz", data="other")
        assert code == 0, said
        code, listed = ask(server, "user", "list", data="other")
        assert "alice@localhost" in listed and "admin@localhost" in listed, listed
        process = subprocess.Popen(
            [BINARY, "--config", "rookery.toml", "--data-dir", "other"], cwd=server.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "is running" in line:
                break
        process.terminate()
        process.wait()
        words = "".join(lines)
        assert "first start" not in words, words
        await server.start()
        return "accounts, rights and files are there, the configuration beside them; the next start doesn't call itself the first"


@row("a damaged page, a random file, a cut file")
async def damaged():
    async with started() as server:
        await server.stop()
        file = server.folder / "rookery-data/rookery.db"
        whole = file.read_bytes()
        for wrong in (whole[:8192] + os.urandom(8192) + whole[16384:], os.urandom(65536), whole[: len(whole) // 2]):
            file.write_bytes(wrong)
            code, said = ask(server, "check")
            assert code == 78, (code, said)
            code, said = ask(server, "serve")
            assert code == 78 and ("damage" in said or "database" in said), (code, said)
        file.write_bytes(whole)
        await server.start()
        return "check and start refuse (78) and say what to do"


class SmallDisk:
    """A data folder on a disk of its own, which has this many bytes."""

    def __init__(self, server, size):
        self.server, self.place, self.size = server, server.folder / "rookery-data", size

    def __enter__(self):
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.size},mode=700", "night", self.place], check=True)
        # The folder would be removed before it is unmounted.
        self.server._remove, self.remove = lambda: None, self.server._remove
        return self

    def fill(self):
        ballast = os.open(self.place / "ballast", os.O_CREAT | os.O_WRONLY)
        try:
            while os.write(ballast, b"x" * 4096):
                pass
        except OSError:
            pass
        os.close(ballast)

    def __exit__(self, *_):
        if self.server.process:
            self.server.process.kill()
            self.server.process.wait()
        subprocess.run(["umount", self.place], check=True)
        self.remove()


@row("the disk is full while it runs")
async def full():
    server = Rookery(tables="plaintext_loopback = true\nplain_without_tls = true\n[limits]\nconnections_per_address = 0")
    with SmallDisk(server, "12m") as disk:
        async with server:
            for name in ("alice", "bob"):
                server.command("user", "add", f"{name}@localhost", "--password-stdin", "--allow-short", said="secret\n")
            alice, bob = Wire(server.port), Wire(server.port)
            for wire, name in ((alice, "alice"), (bob, "bob")):
                await wire.open(name, "<bind xmlns='urn:xmpp:bind:0'/>")
                wire.send("<presence/>")
                await wire.until("<presence")
            disk.fill()
            code, said = await wait(lambda: (lambda found: found if found[0] == 503 else None)(get(server, "/health/ready")))
            checked, words = ask(server, "check")
            assert checked != 0 and "the disk is full" in words, words
            alice.send("<message type='chat' to='bob@localhost'><body>still here</body></message>")
            await bob.until("still here")
            await server.says("the disk is full")
            code, doctor = ask(server, "doctor")
            assert code == 3 and "disk" in doctor, doctor
            free = re.search(r"rookery_data_free_bytes \d+", get(server, "/metrics")[1]).group()
            (disk.place / "ballast").unlink()
            await wait(lambda: get(server, "/health/ready")[0] == 200)
            await server.says("the disk has room again")
            return f"ready: 503 “{said}”; check {checked}; log, doctor and {free.split()[0]} report it; chat continues; ready again with room"


@row("the disk is full at a restart")
async def full_restart():
    server = Rookery(tables="plaintext_loopback = true\nplain_without_tls = true\n[limits]\nconnections_per_address = 0")
    with SmallDisk(server, "12m") as disk:
        async with server:
            server.command("user", "add", "alice@localhost", "--password-stdin", "--allow-short", said="secret\n")
            names = "".join(f"u{number}@localhost,secret\n" for number in range(200))
            (server.folder / "users.csv").write_text(names)
            server.command("user", "import", "users.csv", "--allow-short")
            server.process.kill()
            server.process.wait()
            wal = (disk.place / "rookery.db-wal").stat().st_size
            disk.fill()
            before = disk.place.joinpath("rookery.db").stat().st_size
            await server.start()
            ready = get(server, "/health/ready")
            count = len(ask(server, "user", "list")[1].splitlines())
            assert count >= 201, count
            checked, words = ask(server, "check")
            assert "the disk is full" in words or "nearly full" in words, words
            (disk.place / "ballast").unlink()
            await wait(lambda: get(server, "/health/ready")[0] == 200)
            return f"it starts with a log of {wal >> 10} KiB beside {before >> 10} KiB, says “{ready[1]}”, and has all {count} accounts; check says so too"


@row("an expired certificate")
async def expired():
    async with started() as server:
        await server.stop()
        certificate(server.folder, "localhost", -1)
        text = (server.folder / "rookery.toml").read_text()
        (server.folder / "rookery.toml").write_text(text + "\n[tls]\ncertificate = 'own.pem'\nkey = 'own.key'\n")
        code, said = ask(server, "check")
        assert code == 3 and "expired" in said, said
        at = len(told(server))
        await server.start()
        await wait(lambda: re.search(r"WARN.*(expired|has ended)", told(server)[at:]))
        ends = re.search(r"rookery_certificate_expiry_timestamp_seconds\{.*?\} (\S+)", get(server, "/metrics")[1]).group(1)
        assert float(ends) < time.time()
        code, doctor = ask(server, "doctor")
        assert code == 3 and "certificate" in doctor.lower(), doctor
        line = re.search(r"WARN.*(expired|has ended).*", told(server)[at:]).group()
        return f"check 3, a warning in the log at the start, the metric with an alert, doctor: “{line[5:110].strip()}…”"


@row("a certificate for another name")
async def other_name():
    async with started() as server:
        await server.stop()
        certificate(server.folder, "other.example", 60)
        text = (server.folder / "rookery.toml").read_text()
        (server.folder / "rookery.toml").write_text(text + "\n[tls]\ncertificate = 'own.pem'\nkey = 'own.key'\n")
        code, said = ask(server, "check")
        assert code == 3 and "other.example" in said, said
        at = len(told(server))
        await server.start()
        await wait(lambda: re.search(r"WARN.*certificate", told(server)[at:]))
        return "check 3 and a warning in the log, with the names of the certificate and of the domain"


@row("the clock has jumped back by years")
async def clock():
    async with started() as server:
        await server.stop()
        # Imitates a clock that is three years slow, for which certificates aren't valid yet.
        # (libfaketime and jemalloc wait for each other.)
        certificate(server.folder, "localhost", 3 * 365)
        text = (server.folder / "rookery.toml").read_text()
        (server.folder / "rookery.toml").write_text(text + "\n[tls]\ncertificate = 'own.pem'\nkey = 'own.key'\n")
        code, said = ask(server, "check")
        assert code == 3 and "clock" in said, said
        at = len(told(server))
        await server.start()
        await wait(lambda: re.search("WARN.*clock", told(server)[at:]))
        return "check and the log at the start ask whether the clock is right"


@row("port taken, folder of another user, second server, folder is a file, port below 1024")
async def places():
    async with started() as server:
        code, said = ask(server, "serve")
        assert code == 1 and "is already running in rookery-data" in said, (code, said)
        text = (server.folder / "rookery.toml").read_text()
        taken = text.replace('c2s = ["127.0.0.1:0"]', f'c2s = ["127.0.0.1:{server.port}"]')
        (server.folder / "rookery.toml").write_text(taken)
        code, said = ask(server, "serve", data="second")
        assert code == 75 and "another program has the port" in said or "Address already in use" in said, (code, said)
        (server.folder / "rookery.toml").write_text(text)
        (server.folder / "file").write_text("")
        code, said = ask(server, "serve", data="file")
        assert code in (1, 78) and "file" in said, (code, said)
        low = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            (Path(folder) / "rookery.toml").write_text(text.replace('web = ["127.0.0.1:0"]', 'web = ["127.0.0.1:80"]'))
            binary = Path(folder) / "rookery"
            shutil.copy(BINARY, binary)
            done = subprocess.run([*low, str(binary), "--config", "rookery.toml"], cwd=folder, capture_output=True, text=True, timeout=60)
            said = done.stdout + done.stderr
            assert done.returncode == 78 and "CAP_NET_BIND_SERVICE" in said, (done.returncode, said)
            (Path(folder) / "theirs").mkdir(0o700)
            (Path(folder) / "rookery.toml").write_text(text)
            done = subprocess.run([*low, str(binary), "--config", "rookery.toml", "--data-dir", "theirs"], cwd=folder, capture_output=True, text=True, timeout=60)
            said = done.stdout + done.stderr
            assert done.returncode == 78 and "theirs" in said, (done.returncode, said)
        return "each is refused with the reason and a remedy"


@row("a reload with a mistake, with the file gone")
async def reloads():
    async with started() as server:
        text = (server.folder / "rookery.toml").read_text()
        (server.folder / "rookery.toml").write_text(text + "\n[limits2]\n")
        at = len(told(server))
        code, said = ask(server, "reload")
        assert code == 1 or code == 78 and "limits2" in said, (code, said)
        server.process.send_signal(1)
        await wait(lambda: re.search(r"ERROR.*limits2", told(server)[at:]))
        (server.folder / "rookery.toml").unlink()
        at = len(told(server))
        server.process.send_signal(1)
        await wait(lambda: re.search(r"ERROR", told(server)[at:]))
        assert get(server, "/health/ready")[0] == 200
        (server.folder / "rookery.toml").write_text(text)
        return "an error with the line, the old configuration stays"


async def main():
    wrong = late = 0
    for name, function in ROWS:
        if len(sys.argv) > 1 and sys.argv[1] not in function.__name__:
            continue
        try:
            print(f"| {name} | {await asyncio.wait_for(function(), 60)} |", flush=True)
        except TimeoutError as error:
            late += 1
            print(f"| {name} | OUT OF TIME: {error} |", flush=True)
        except Exception as error:  # noqa: BLE001
            wrong += 1
            print(f"| {name} | WRONG: {type(error).__name__} {error} |"[:1500], flush=True)
    sys.exit(1 if wrong else os.EX_TEMPFAIL if late else 0)


if __name__ == "__main__":
    asyncio.run(main())
