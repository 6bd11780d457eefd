#!/usr/bin/env python3
"""Takes a new operator's path and times it: from a minimal Debian to two people who chat and share
a picture, in three commands.

    tests/containers/newcomer.py --binary target/release/rookery

The machine is a container: a fresh Debian with systemd. Beside it run a name server, into which the
operator puts the records that `rookery setup` prints, and Pebble in place of Let's Encrypt; a
drop-in that exists from the start points the server to Pebble. The two people use Chromium. The
times leave out making the machine and the package, and the seconds in which people think and type.

Needs root, Debian's podman, netavark, runc, mmdebstrap, pebble and chromium, and Python's
`cryptography` and `dnspython`.
"""

import argparse
import asyncio
import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from engine import ROOT, configure, debian, run

sys.path.insert(0, str(ROOT / "tests/clients"))
os.environ.setdefault("ROOKERY", "-")

import dns.message
import dns.rdatatype
import dns.rrset
from chromium import Chromium
from pages import EDITOR, _picture, _talk

DOMAIN, MACHINE, NETWORK = "smith.family", "newcomer", "newcomer"
HOST, GATEWAY = "10.87.0.2", "10.87.0.1"
AUTHORITY = "authority.family"
IMAGE = "localhost/debian-systemd"
PATIENCE = 120
DROP_IN = f"""[Service]
Environment=ROOKERY__TLS__ACME__DIRECTORY=https://{AUTHORITY}:14000/dir ROOKERY__TLS__ACME__TRUSTED=/etc/authority.pem
"""


class Way:
    """The steps, each with the seconds that it took."""

    def __init__(self):
        self.begun = self.last = time.monotonic()
        self.commands = 0

    def step(self, what):
        now = time.monotonic()
        print(f"{now - self.begun:7.1f} s  (+{now - self.last:5.1f})  {what}", flush=True)
        self.last = now

    def command(self, line):
        """Runs one of the operator's commands as root on the machine."""
        self.commands += 1
        said = run("podman", "exec", "--env", "DEBIAN_FRONTEND=noninteractive", MACHINE, "sh", "-c", line)
        self.step(f"$ {line}")
        return said


class Names:
    """A name server for all queries of this test: it has the authority's records from the start,
    and the machine's as soon as the operator has entered them.
    """

    def __init__(self):
        self.records = [f"{AUTHORITY}. IN A {GATEWAY}"]
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((GATEWAY, 53))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            asked, whence = self.socket.recvfrom(4096)
            question = dns.message.from_wire(asked)
            answer = dns.message.make_response(question, recursion_available=True)
            name, kind = question.question[0].name, question.question[0].rdtype
            for record in self.records:
                owner, _, type_, data = record.split(" ", 3)
                if owner.lower() == name.to_text().lower() and dns.rdatatype.from_text(type_) == kind:
                    answer.answer.append(dns.rrset.from_text(name, 60, "IN", type_, data))
            self.socket.sendto(answer.to_wire(), whence)


class Authority:
    """Pebble, and the certificate by which others trust it."""

    def __init__(self, folder):
        self.folder = folder
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "authority.key", "-out", "authority.pem",
             "-days", "2", "-subj", f"/CN={AUTHORITY}", "-addext", f"subjectAltName=DNS:{AUTHORITY}", "-addext", "basicConstraints=critical,CA:FALSE"],
            cwd=folder, check=True, capture_output=True,
        )  # fmt: skip
        (folder / "pebble.json").write_text(
            f'{{"pebble": {{"listenAddress": "{GATEWAY}:14000", "managementListenAddress": "{GATEWAY}:15000", "certificate": "authority.pem", '
            '"privateKey": "authority.key", "httpPort": 80, "tlsPort": 443}}'
        )

    def start(self):
        environment = {**os.environ, "PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0"}
        log = (self.folder / "pebble.log").open("wb")
        self.process = subprocess.Popen(
            ["pebble", "-config", "pebble.json", "-dnsserver", f"{GATEWAY}:53"], cwd=self.folder, env=environment, stdout=log, stderr=log
        )


class Shown:
    """The certificate that the server presents, in the form that Chromium takes."""

    def __init__(self, folder):
        self.certificate = folder / "shown.pem"

    def issuer(self):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection((HOST, 443), 5) as plain, context.wrap_socket(plain, server_hostname=DOMAIN) as secure:
            pem = ssl.DER_cert_to_PEM_cert(secure.getpeercert(True))
        self.certificate.write_text(pem)
        return subprocess.run(["openssl", "x509", "-noout", "-issuer"], input=pem, capture_output=True, text=True).stdout


def machine(folder, package):
    """Boots a minimal Debian that has nothing of Rookery but the two files that the operator has
    fetched.
    """
    debian(IMAGE, "systemd,systemd-sysv,dbus,ca-certificates")
    run("podman", "rm", "--force", "--time", "0", MACHINE, check=False)
    run("podman", "network", "rm", "--force", NETWORK, check=False)
    run("podman", "network", "create", "--disable-dns", "--subnet", "10.87.0.0/24", "--gateway", GATEWAY, NETWORK)
    (folder / "resolv.conf").write_text(f"nameserver {GATEWAY}\n")
    (folder / "drop-in.conf").write_text(DROP_IN)
    run(
        "podman", "run", "--detach", "--name", MACHINE, "--hostname", "chat", "--network", NETWORK, "--ip", HOST, "--systemd=always",
        "--cap-add", "SYS_ADMIN,NET_ADMIN", "--security-opt", "seccomp=unconfined", "--security-opt", "unmask=all",
        "--volume", f"{folder}/resolv.conf:/etc/resolv.conf:ro", IMAGE, "/lib/systemd/systemd",
    )  # fmt: skip
    for file, place in ((package, "/root/"), (folder / "authority.pem", "/etc/")):
        run("podman", "cp", file, f"{MACHINE}:{place}")
    run("podman", "exec", MACHINE, "mkdir", "-p", "/etc/systemd/system/rookery.service.d")
    run("podman", "cp", folder / "drop-in.conf", f"{MACHINE}:/etc/systemd/system/rookery.service.d/authority.conf")
    until("systemd runs", lambda: run("podman", "exec", MACHINE, "systemctl", "is-system-running", check=False).strip() in ("running", "degraded"))


def until(what, test):
    end = time.monotonic() + PATIENCE
    while not (found := test()):
        if time.monotonic() > end:
            print(run("podman", "exec", MACHINE, "journalctl", "--no-pager", "--lines", "60", check=False))
            sys.exit(f"{what}: not in {PATIENCE} s")
        time.sleep(0.3)
    return found


def link(said, kind):
    return re.search(rf"https://{re.escape(DOMAIN)}/{kind}/\S+", said).group()


async def people(way, shown, said, folder):
    rules = f"--host-resolver-rules=MAP {DOMAIN} {HOST}"
    async with Chromium(shown, rules) as chromium:
        anna, tom = await chromium.page("anna"), await chromium.page("tom")
        await anna.open(link(said, "reset"))
        await anna.type("input[name=password]", "annas password")
        await anna.type("input[name=again]", "annas password")
        await anna.click("form button")
        await anna.sees("anna@" + DOMAIN)
        way.step("Anna has chosen her password")
        await tom.open(link(said, "invite"))
        await tom.sees(f"anna@{DOMAIN} invites you")
        await tom.type("input[name=name]", "tom")
        await tom.type("input[name=password]", "toms password")
        await tom.type("input[name=again]", "toms password")
        await tom.click("form button")
        await tom.sees("tom@" + DOMAIN)
        way.step("Tom has opened the invitation and made his account")
        for page in (anna, tom):
            await page.open(f"https://{DOMAIN}/chat")
            await page.type("#converse-login input[name=jid]", f"{page.name}@{DOMAIN}")
            await page.type("#converse-login input[name=password]", f"{page.name}s password")
            await page.click("#converse-login [type=submit]")
            await page.sees("I am online")
        way.step("both are in the chat, in their browsers")
        await _talk(anna, tom, f"tom@{DOMAIN}", f"anna@{DOMAIN}")
        way.step("they have written to each other")
        picture = folder / "picture.png"
        picture.write_bytes(_picture(48, 32))
        await anna.until("document.querySelector('converse-chat input[type=file]') !== null")
        await anna.choose_file("converse-chat input[type=file]", picture)
        await tom.until("[...document.querySelectorAll('.chat-msg img')].some(image => image.src.includes('/upload/') && image.naturalWidth === 48)")
        way.step("Tom sees Anna's picture")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binary", default=ROOT / "target/release/rookery", help="the server that the package is made of")
    arguments.add_argument("--keep", action="store_true", help="leave the machine running at the end")
    arguments = arguments.parse_args()
    configure()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        os.environ["DPKG_DEB_COMPRESSOR_TYPE"] = "gzip"
        package = Path(run(ROOT / "packaging/deb", arguments.binary, folder / "made").strip())
        authority = Authority(folder)
        machine(folder, package)
        authority.start()
        try:
            walk(Way(), Names(), Shown(folder), folder, package)
        finally:
            authority.process.terminate()
            authority.process.wait()
            if not arguments.keep:
                run("podman", "rm", "--force", "--time", "0", MACHINE, check=False)
                run("podman", "network", "rm", "--force", NETWORK, check=False)


def walk(way, names, shown, folder, package):
    way.command(f"apt-get install --yes /root/{package.name}")
    said = way.command(f"rookery setup {DOMAIN} --admin anna --address {HOST}")
    records = re.findall(r"missing\s+(\S+)\s+IN\s+(\S+)\s+(.+)", said)
    names.records += [f"{owner} IN {kind} {' '.join(data.split())}" for owner, kind, data in records]
    way.step(f"the {len(records)} records that it has printed are in DNS")
    way.command("systemctl enable --now rookery")
    until("a certificate comes", lambda: "Pebble" in shown.issuer())
    way.step("the certificate of the authority is shown")
    checked = run("podman", "exec", MACHINE, "rookery", "check", "--dns", check=False)
    asyncio.run(people(way, shown, said, folder))
    print(f"\n{way.commands} commands, {time.monotonic() - way.begun:.0f} s\n\nrookery check --dns, then:\n{checked}")


if __name__ == "__main__":
    main()
