"""A service with simulated front-ends, started for a scenario on free ports."""

import contextlib
import os
import pathlib
import subprocess
import tempfile

import realm as kerberos

DEVICES = pathlib.Path(__file__).parents[2] / "crates/dpm/tests/service/settings.toml"

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


class Service:
    """Where a running service is, its realm and its audit log."""

    def __init__(self, host, port, realm, audit):
        self.host, self.port, self.realm, self.audit = host, port, realm, audit

    def attempts(self):
        return self.audit.read_text().splitlines()


@contextlib.contextmanager
def demo(*options, environment=None):
    """`rookery dpm --demo`, nothing else."""
    command = [os.environ["ROOKERY"], "dpm", "--demo", "--listen", "127.0.0.1:0", *options]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        line = server.stdout.readline()
        assert "serves" in line, f"the service did not start: {line}"
        host, port = line.rsplit(" ", 1)[1].strip().rstrip(".").split(":")
        yield Service(host, int(port), None, None)
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


@contextlib.contextmanager
def with_settings(devices=DEVICES, roles=ROLES):
    """A service whose devices can be set, and a realm in which its users have tickets."""
    with tempfile.TemporaryDirectory(prefix="rookery-dpm-") as name:
        folder = pathlib.Path(name)
        realm = kerberos.Realm(folder)
        try:
            (folder / "roles.toml").write_text(roles)
            audit = folder / "audit.log"
            options = ["--database", devices, "--keytab", realm.keytab, "--principal", kerberos.SERVICE]
            options += ["--roles", folder / "roles.toml", "--audit", audit]
            with demo(*map(str, options), environment=realm.service_environment) as service:
                service.realm, service.audit = realm, audit
                yield service
        finally:
            realm.stop()


@contextlib.contextmanager
def ticket(service, user):
    """This process has a user's ticket meanwhile, and knows no other realm."""
    before = dict(os.environ)
    os.environ.update(service.realm.environment(user))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
