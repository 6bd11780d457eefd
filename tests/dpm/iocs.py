"""Starts EPICS servers on free ports of this machine, for a scenario: caproto's, the soft IOC of
EPICS base, and p4p's for pvAccess.
"""

import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parents[1] / "clients"))
from ports import free_port  # noqa: E402

DATABASE = """
record(ao, "SOFT:MAGNET") {
    field(VAL, "2.5") field(PREC, "3") field(EGU, "A") field(DRVL, "-10") field(DRVH, "10") field(PINI, "YES")
}
record(bo, "SOFT:VALVE") { field(ZNAM, "Closed") field(ONAM, "Open") field(VAL, "0") field(PINI, "YES") }
record(stringout, "SOFT:NOTE") { field(VAL, "all is well") field(PINI, "YES") }
record(calc, "SOFT:COUNT") { field(SCAN, ".1 second") field(INPA, "SOFT:COUNT") field(CALC, "A+1") }
record(waveform, "SOFT:WAVE") { field(FTVL, "DOUBLE") field(NELM, "8") }
record(ai, "SOFT:NEVER") { }
"""


@contextlib.contextmanager
def soft(port=None):
    """The soft IOC of EPICS base with the records above, on a free port or on an earlier one's. """
    port = port or free_port()
    with tempfile.TemporaryDirectory(prefix="rookery-ioc-") as folder:
        database = pathlib.Path(folder) / "records.db"
        database.write_text(DATABASE)
        command = [sys.executable, "-m", "epicscorelibs.ioc", "-d", str(database)]
        # The soft IOC ends with its input.
        with _process(command, port, b"iocRun: All initialization complete") as process:
            yield Server(port, process)


class Server:
    """A running server: the port for searches, and that over TCP."""

    def __init__(self, port, process, tcp=None):
        self.port, self.tcp, self._process = port, tcp or port, process

    def kill(self):
        """Kills the server."""
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def caproto():
    """A caproto server."""
    port = free_port()
    command = [sys.executable, str(pathlib.Path(__file__).parent / "caproto_server.py")]
    with _process(command, port, b"ready") as process:
        yield Server(port, process)


@contextlib.contextmanager
def p4p(ports=None):
    """A pvAccess server, on free ports or on an earlier one's."""
    port, tcp = ports or (free_port(), free_port())
    command = [sys.executable, str(pathlib.Path(__file__).parent / "p4p_server.py")]
    with _process(command, port, b"ready", tcp) as process:
        yield Server(port, process, tcp)


@contextlib.contextmanager
def _process(command, port, sign, tcp=None):
    environment = dict(os.environ)
    for name in ("EPICS_CA_SERVER_PORT", "EPICS_CAS_SERVER_PORT"):
        environment[name] = str(port)
    for name in ("EPICS_CAS_INTF_ADDR_LIST", "EPICS_CAS_BEACON_ADDR_LIST", "EPICS_CA_ADDR_LIST"):
        environment[name] = "127.0.0.1"
    environment |= {"EPICS_CAS_AUTO_BEACON_ADDR_LIST": "NO", "EPICS_CA_AUTO_ADDR_LIST": "NO", "PYTHONUNBUFFERED": "1"}
    # The soft IOC also speaks pvAccess, on a port of its own, so that it doesn't receive the
    # datagrams of Channel Access.
    searches = port if tcp else free_port()
    environment |= {"EPICS_PVAS_SERVER_PORT": str(tcp or free_port()), "EPICS_PVAS_BROADCAST_PORT": str(searches)}
    environment |= {"EPICS_PVAS_INTF_ADDR_LIST": "127.0.0.1", "EPICS_PVAS_AUTO_BEACON_ADDR_LIST": "NO"}
    environment["EPICS_CAS_BEACON_PORT"] = environment["EPICS_CA_REPEATER_PORT"] = str(free_port())
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        said = b""
        while sign not in said:
            line = process.stdout.readline()
            assert line, f"the server did not start: {said.decode()}"
            said += line
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()

