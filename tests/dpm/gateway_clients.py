"""Reads devices with unmodified EPICS clients: pyepics with EPICS base's library, and caproto. """

import contextlib
import os
import threading
import urllib.request

import rookery
from ports import free_port


def the_library_of_epics_base_reads_and_monitors():
    with _served():
        import epics

        outside = epics.PV("M:OUTTMP", connection_timeout=rookery.PATIENCE)
        assert outside.wait_for_connection(timeout=rookery.PATIENCE)
        assert 69 < outside.get(timeout=rookery.PATIENCE) < 76
        limits = outside.get_ctrlvars(timeout=rookery.PATIENCE)
        assert limits["units"] == "DegF", limits
        assert outside.read_access and not outside.write_access
        assert epics.caget("G:TEXT", timeout=rookery.PATIENCE) == "HELLO"
        assert len(epics.caget("B:ARRAY[0:3]", timeout=rookery.PATIENCE)) == 4
        assert epics.caget("X:NOBODY", timeout=1) is None
        seen, enough = [], threading.Event()

        def changed(value=None, **_):
            seen.append(value)
            if len(seen) >= 5:
                enough.set()

        counter = epics.PV("G:COUNTR", callback=changed, auto_monitor=True)
        assert enough.wait(rookery.PATIENCE), seen
        assert seen == sorted(seen) and len(set(seen)) >= 4, seen
        counter.disconnect()


def a_client_of_caproto_reads_and_monitors():
    with _served():
        from caproto.threading.client import Context

        context = Context()
        outside, counter, text = context.get_pvs("M:OUTTMP", "G:COUNTR", "G:TEXT", timeout=rookery.PATIENCE)
        reading = outside.read(data_type="time", timeout=rookery.PATIENCE)
        assert 69 < reading.data[0] < 76 and reading.metadata.severity == 0, reading
        assert text.read(timeout=rookery.PATIENCE).data[0] == b"HELLO"
        seen, enough = [], threading.Event()

        def changed(_, response):
            seen.append(response.data[0])
            if len(seen) >= 5:
                enough.set()

        subscription = counter.subscribe(data_type="time")
        subscription.add_callback(changed)
        assert enough.wait(rookery.PATIENCE), seen
        assert seen == sorted(seen), seen
        context.disconnect()


def nothing_can_be_set():
    with _served():
        from caproto import ErrorResponseReceived
        from caproto.threading.client import Context

        context = Context()
        (cube,) = context.get_pvs("Z:CUBE_X.SETTING", timeout=rookery.PATIENCE)
        before = cube.read(timeout=rookery.PATIENCE).data[0]
        try:
            answer = cube.write([before + 1], notify=True, timeout=rookery.PATIENCE)
            assert not answer.status.success, answer
        except ErrorResponseReceived:
            pass
        assert cube.read(timeout=rookery.PATIENCE).data[0] == before
        context.disconnect()


def many_clients_are_one_reader_of_the_front_end():
    with _served() as service:
        from caproto.threading.client import Context

        # The demonstration records on its own.
        before = _metrics(service)
        contexts, kept = [Context() for _ in range(5)], []
        for context in contexts:
            (outside,) = context.get_pvs("M:OUTTMP@p,200", timeout=rookery.PATIENCE)
            came = threading.Event()
            subscription = outside.subscribe(data_type="time")

            def arrived(*_, came=came):
                came.set()

            # caproto holds only weak references to subscriptions and callbacks.
            kept += [subscription, arrived]
            subscription.add_callback(arrived)
            assert came.wait(rookery.PATIENCE)
        after = _metrics(service)
        more = {name: after[name] - before[name] for name in before}
        assert more["rookery_dpm_asked_total"] == 5 and more["rookery_dpm_shared_total"] == 4, more
        assert more["rookery_dpm_devices_requested_total"] == 1, more
        for context in contexts:
            context.disconnect()


def _metrics(service):
    with urllib.request.urlopen(f"http://{service.host}:{service.port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return {line.split()[0]: float(line.split()[1]) for line in lines if not line.startswith("#")}


@contextlib.contextmanager
def _served():
    """A service that clients in this process find through environment variables, which they read
    when they are imported.
    """
    port = free_port()
    names = {
        "EPICS_CA_ADDR_LIST": "127.0.0.1",
        "EPICS_CA_AUTO_ADDR_LIST": "NO",
        "EPICS_CA_SERVER_PORT": str(port),
        "EPICS_CA_REPEATER_PORT": str(free_port()),
    }
    os.environ.update(names)
    with rookery.demo("--channel-access", f"127.0.0.1:{port}") as service:
        yield service
