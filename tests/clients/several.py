"""Runs three nodes of a cluster behind a balancer in place of one server, for the scenarios of real
clients.

`tests/clients/behind.py` runs them so, and `server/tests/clients/behind.rs` some of them. Each
connection goes to the next node that accepts it, whatever its purpose; so does each BOSH request
with its own connection. Commands run on the first node.
"""

import asyncio
import json
import os
import shutil
import signal
import threading

NODES = 3
# The seconds within which nodes hand on homes to one that has joined.
SETTLED = 4
# The databases and a Redis, if there are any: {"databases": [URL, …], "redis": URL}, one database
# for each server that a scenario starts.
BEHIND = json.loads(os.environ.get("ROOKERY_BEHIND", "null"))


def behind(rookery):
    """Returns the class of servers of three nodes, derived from that of one server."""

    class Several(rookery):
        def __init__(self, *accounts, top="", listen="", tables=""):
            self.database = BEHIND["databases"].pop(0)
            self.others, self.doors, self.turn = [], [], 0
            super().__init__(*accounts, top=top, listen=listen, tables=tables)

        def configure(self, top="", tables="", listen=""):
            for number in range(1, NODES + 1):
                folder = self.folder if number == 1 else self.folder / f"n{number}"
                (folder / "rookery-data").mkdir(0o700, parents=True, exist_ok=True)
                uploads = folder / "rookery-data/uploads"
                # A file may be fetched from another node than the one that got it.
                if number == 1:
                    uploads.mkdir(0o700, exist_ok=True)
                elif not uploads.is_symlink():
                    uploads.symlink_to(self.folder / "rookery-data/uploads")
                of_cluster = f'[cluster]\nnode = "n{number}"\nredis = "{BEHIND["redis"]}"\nlease_seconds = 2\n'
                store = f'[store]\nurl = "{self.database}"\nconnections = 2\ndurability = "trust"\n'
                rookery.write(folder, top=top, listen=listen, tables=f"{tables}\n{store}{of_cluster}")

        async def start(self):
            await super().start()
            self.own_ports = self._ports(self)
            ports = [self.own_ports]
            for number in range(2, NODES + 1):
                folder = self.folder / f"n{number}"
                # Clients trust the first node's certificate.
                shutil.copytree(self.folder / "rookery-data/certs", folder / "rookery-data/certs", dirs_exist_ok=True)
                node = _Node(folder)
                self.others.append(node)
                await node.start()
                ports.append(self._ports(node))
            self.doors = [Balancer(list(of_kind)).listen() for of_kind in zip(*ports, strict=True)]
            self._show_doors()

        async def kill(self, number):
            """Kills a node, counted from 0."""
            node = (self, *self.others)[number]
            node.process.kill()
            node.process.wait()

        async def start_again(self, number):
            """Starts a node that was killed, and waits until it has its share of the homes."""
            nodes = (self, *self.others)
            await rookery.start(nodes[number])
            ports = [self._ports(node) for node in self.others]
            if number == 0:
                self.own_ports = self._ports(self)
            for door, of_kind in zip(self.doors, zip(self.own_ports, *ports, strict=True), strict=True):
                door.ports = list(of_kind)
            self._show_doors()
            while self.command("node", "list").count(" up ") < NODES:
                await asyncio.sleep(0.2)
            await asyncio.sleep(SETTLED)

        def _show_doors(self):
            self.port, self.tls_port, self.web_port, self.web_tls_port = (door.port for door in self.doors)

        @staticmethod
        def _ports(node):
            return node.port, node.tls_port, node.web_port, node.web_tls_port

        async def reload(self):
            await super().reload()
            for node in self.others:
                await node.reload()

        async def stop(self, number=signal.SIGTERM):
            for door in self.doors:
                door.close()
            codes = [await node.stop(number) for node in self.others]
            codes.append(await super().stop(number))
            self.others, self.doors = [], []
            return max(codes)

        def _remove(self):
            for node in self.others:
                node._remove_process()
            super()._remove()

    class _Node(rookery):
        """One of the other nodes, in an existing folder."""

        def __init__(self, folder):
            self.folder, self.log, self.process = folder, folder / "log", None

        def _remove_process(self):
            if self.process:
                self.process.kill()
                self.process.wait()

    return Several


class Balancer:
    """A port whose connections go to each of some ports in turn.

    A separate thread serves them all, since scenarios block their own. Port 0 is any free one.
    """

    loop = None

    def __init__(self, ports):
        self.ports, self.turn, self.server, self.tasks = ports, 0, None, set()

    def listen(self, host="127.0.0.1", port=0):
        if not Balancer.loop:
            Balancer.loop = asyncio.new_event_loop()
            threading.Thread(target=Balancer.loop.run_forever, daemon=True).start()
        asyncio.run_coroutine_threadsafe(self._listen(host, port), Balancer.loop).result()
        return self

    async def _listen(self, host, port):
        self.server = await asyncio.start_server(self._serve, host, port)
        self.port = self.server.sockets[0].getsockname()[1]

    def close(self):
        Balancer.loop.call_soon_threadsafe(self._close)

    def _close(self):
        self.server.close()
        for task in list(self.tasks):
            task.cancel()

    async def _serve(self, reader, writer):
        self.tasks.add(asyncio.current_task())
        theirs = None
        try:
            back, theirs = await self._next()
            await asyncio.gather(_pass_on(reader, theirs), _pass_on(back, writer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self.tasks.discard(asyncio.current_task())
            for end in (writer, theirs):
                if end:
                    end.close()

    async def _next(self):
        """Connects to the next node that is there."""
        for _ in self.ports[1:]:
            self.turn += 1
            try:
                return await asyncio.open_connection("127.0.0.1", self.ports[self.turn % len(self.ports)])
            except ConnectionError:
                pass
        self.turn += 1
        return await asyncio.open_connection("127.0.0.1", self.ports[self.turn % len(self.ports)])


async def _pass_on(reader, writer):
    while data := await reader.read(64 * 1024):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
