"""Starts a service with simulated front-ends on free ports, for a scenario."""

import contextlib
import os
import pathlib
import subprocess
import tempfile

import pacsys

import realm as kerberos

DEVICES = pathlib.Path(__file__).parents[2] / "crates/dpm/tests/service/settings.toml"

DEMO = pathlib.Path(__file__).parents[2] / "crates/dpm/src/database/demo.toml"

ROLES = """
[[role]]
name = "testing"
principals = ["operator@FNAL.GOV"]
devices = ["*"]

[[role]]
name = "cubes"
principals = ["*@FNAL.GOV"]
devices = ["Z:CUBE_*"]
"""


# The time limit of everything, in seconds. The clients' own limit is five seconds, which a service
# on a busy machine may exceed.
PATIENCE = 60

LOG = """
[[node]]
name = "SETSDB"
address = "09cd"
socket = "{}:{}"
protocol = "RETDAT"
"""


class Service:
    """The address of a running service, its realm and its audit log."""

    def __init__(self, host, port, realm, audit):
        self.host, self.port, self.realm, self.audit = host, port, realm, audit

    def dpm(self, **options):
        return pacsys.dpm(host=self.host, port=self.port, timeout=PATIENCE, **options)

    def attempts(self):
        return self.audit.read_text().splitlines()


@contextlib.contextmanager
def demo(*options, environment=None):
    """`rookery dpm --demo` without further options."""
    with _serve("--demo", *options, environment=environment) as service:
        yield service


@contextlib.contextmanager
def with_clock(device):
    """The demonstration, with a device that shows clock events."""
    with tempfile.TemporaryDirectory(prefix="rookery-dpm-") as folder:
        devices = pathlib.Path(folder) / "devices.toml"
        devices.write_text(DEMO.read_text() + f'\n[names]\nclock = "{device}"\n')
        with _serve("--demo", "--database", str(devices)) as service:
            yield service


@contextlib.contextmanager
def with_database(devices, *options):
    """A service with a database file, whose front-ends run already."""
    with _serve("--database", str(devices), "--network", "127.0.0.1:0", *options) as service:
        yield service


@contextlib.contextmanager
def with_settings(devices=DEVICES, roles=ROLES, log=None, front_ends=True):
    """A service whose devices can be set, and a realm in which its users have tickets. `log` is
    where the node SETSDB is, if there is one. Front-ends are simulated, unless they run already.
    """
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rookery-dpm-")))
        realm = kerberos.Realm(folder)
        stack.callback(realm.stop)
        (folder / "roles.toml").write_text(roles)
        audit = folder / "audit.log"
        options = ["--keytab", realm.keytab, "--principal", kerberos.SERVICE]
        options += ["--roles", folder / "roles.toml", "--audit", audit]
        if log:
            front_ends = stack.enter_context(_simulate(devices))
            text = devices.read_text().replace("127.0.0.1:6801", front_ends)
            (folder / "devices.toml").write_text(text + LOG.format(*log))
            options += ["--database", folder / "devices.toml", "--network", "127.0.0.1:0"]
        elif front_ends:
            options += ["--demo", "--database", devices]
        else:
            options += ["--database", devices, "--network", "127.0.0.1:0"]
        service = stack.enter_context(_serve(*map(str, options), environment=realm.service_environment))
        service.realm, service.audit = realm, audit
        yield service


@contextlib.contextmanager
def ticket(service, user):
    """Gives this process a user's ticket for the block, and no other realm."""
    before = dict(os.environ)
    os.environ.update(service.realm.environment(user))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def _serve(*options, environment=None):
    with _started("dpm", "--listen", "127.0.0.1:0", *options, environment=environment) as line:
        assert "serves" in line, f"the service did not start: {line}"
        host, port = line.rsplit(" ", 1)[1].strip().rstrip(".").split(":")
        yield Service(host, int(port), None, None)


@contextlib.contextmanager
def _simulate(devices):
    with _started("dpm", "simulate", "--database", str(devices), "--listen", "127.0.0.1:0") as line:
        yield line.strip()


@contextlib.contextmanager
def _started(*arguments, environment=None):
    """A process, and the first line that it prints."""
    process = subprocess.Popen([os.environ["ROOKERY"], *arguments], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        yield process.stdout.readline()
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
