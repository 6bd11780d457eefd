"""Runs a server in a temporary folder, as an operator does."""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

BINARY = os.environ["ROOKERY"]

# Two shards, so that half of all conversations cross shards on any machine; few iterations of the
# hash, since clients compute it in Python.
CONFIG = """
{top}
shards = 2
[listen]
c2s = ["127.0.0.1:0"]
c2s_tls = ["127.0.0.1:0"]
web = ["127.0.0.1:0"]
web_tls = ["127.0.0.1:0"]
bytestreams = ["127.0.0.1:0"]
{listen}
[login]
scram_iterations = 4096
{tables}
"""


class Rookery:
    """`async with Rookery("alice", "bob@example.org")`: a running server with these accounts, whose
    passwords are "secret".

    `top`, `listen` and `tables` go into the configuration: keys without a table, those of [listen],
    and tables. Leaving the block stops the server, removes its folder, and asserts that it ended
    well.
    """

    def __init__(self, *accounts, top="", listen="", tables=""):
        self.accounts = [account if "@" in account else f"{account}@localhost" for account in accounts]
        self.folder = Path(tempfile.mkdtemp(prefix="rookery-clients-"))
        # Accounts are added before the first start, which would make an administrator.
        (self.folder / "rookery-data").mkdir(0o700)
        self.log = self.folder / "log"
        self.configure(top, tables, listen)
        self.process = None
        self.port = self.tls_port = self.web_port = self.web_tls_port = None

    async def __aenter__(self):
        try:
            for account in self.accounts:
                self.command("user", "add", account, "--password-stdin", "--allow-short", said="secret\n")
            await self.start()
        except BaseException:
            self._remove()
            raise
        return self

    async def __aexit__(self, kind, error, trace):
        try:
            code = await self.stop() if self.process else 0
            if error is not None:
                print("What the server said:", *self.log.read_text().splitlines()[-100:], sep="\n  ")
            else:
                assert code == 0, f"the server ended with {code}:\n{self.log.read_text()}"
                assert "panicked" not in self.log.read_text(), self.log.read_text()
        finally:
            self._remove()

    def configure(self, top="", tables="", listen=""):
        self.write(self.folder, top=top, listen=listen, tables=tables)

    @staticmethod
    def write(folder, **parts):
        (folder / "rookery.toml").write_text(CONFIG.format(**parts))

    @property
    def certificate(self):
        """The server's self-signed certificate, which clients trust."""
        return self.folder / "rookery-data/certs/self-signed.pem"

    def command(self, *arguments, said="", code=0):
        """Runs a command of the binary and asserts its exit code, by default 0. """
        arguments = [BINARY, "--config", "rookery.toml", *arguments]
        ended = subprocess.run(arguments, cwd=self.folder, input=said, text=True, capture_output=True, timeout=60)
        assert ended.returncode == code, f"{arguments}: {ended.stdout}{ended.stderr}"
        return ended.stdout

    async def start(self):
        with self.log.open("ab") as log:
            at = log.tell()
            self.process = subprocess.Popen(
                [BINARY, "--config", "rookery.toml"], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        await self.listens(at)

    async def listens(self, at):
        """Waits until the log, from this byte on, names the ports."""
        running = await self.says(
            r"is running: \S+:(\d+) \(STARTTLS\), \S+:(\d+) \(direct TLS\), \S+:(\d+) \(HTTP\), \S+:(\d+) \(HTTPS\)", at
        )
        self.port, self.tls_port, self.web_port, self.web_tls_port = (int(port) for port in running.groups())

    async def says(self, pattern, at=0):
        """Waits until the log, from this byte on, matches the pattern."""
        while True:
            found = re.search(pattern, self.log.read_bytes()[at:].decode())
            if found:
                return found
            assert self.process.poll() is None, f"the server ended:\n{self.log.read_text()}"
            await asyncio.sleep(0.02)

    def send(self, number):
        self.process.send_signal(number)

    async def reload(self):
        at = self.log.stat().st_size
        self.send(signal.SIGHUP)
        await self.says("reloaded (configuration and )?certificates", at)

    async def stop(self, number=signal.SIGTERM):
        """Stops the server and returns its exit code."""
        process, self.process = self.process, None
        process.send_signal(number)
        try:
            return await asyncio.get_running_loop().run_in_executor(None, process.wait, 30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def _remove(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder)


if "ROOKERY_BEHIND" in os.environ:
    # The scenarios use three nodes behind a balancer instead.
    from several import behind

    Rookery = behind(Rookery)
