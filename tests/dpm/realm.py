"""Runs a Kerberos realm on loopback: Debian's KDC in a temporary folder, with its own configuration
and port. It uses nothing of the system's Kerberos.

The clients require the realm FNAL.GOV. The name is never looked up: the configuration names the
only KDC.
"""

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "clients"))

from ports import free_port

NAME = "FNAL.GOV"
SERVICE = f"daeset/localhost@{NAME}"


class Realm:
    """A running KDC. `environment` is for clients that have a ticket, `service_environment` for the
    service.
    """

    def __init__(self, folder: pathlib.Path, users=("operator", "guest")):
        self.folder = folder
        self.port = free_port()
        self.keytab = folder / "service.keytab"
        (folder / "krb5.conf").write_text(_CLIENTS.format(name=NAME, port=self.port, folder=folder))
        (folder / "kdc.conf").write_text(_KDC.format(name=NAME, port=self.port, folder=folder))
        self.service_environment = {
            **os.environ,
            "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin",
            "KRB5_CONFIG": str(folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5RCACHEDIR": str(folder),
        }
        self._run("kdb5_util", "-r", NAME, "-P", "a password of nobody", "create", "-s")
        for principal in (SERVICE, *(f"{user}@{NAME}" for user in users)):
            self._run("kadmin.local", "-r", NAME, "-q", f"addprinc -randkey {principal}")
        self._run("kadmin.local", "-r", NAME, "-q", f"ktadd -k {self.keytab} {SERVICE}")
        for user in users:
            self._run("kadmin.local", "-r", NAME, "-q", f"ktadd -k {folder}/{user}.keytab {user}@{NAME}")
        log = open(folder / "kdc.out", "w")
        command = ["krb5kdc", "-n", "-r", NAME, "-P", str(folder / "kdc.pid")]
        self._kdc = subprocess.Popen(command, env=self.service_environment, stdout=log, stderr=log)
        _wait_for(self.port, self._kdc)

    def environment(self, user: str) -> dict:
        """The environment of a client with a fresh ticket."""
        environment = {**self.service_environment, "KRB5CCNAME": f"FILE:{self.folder}/{user}.ccache"}
        kinit = ["kinit", "-k", "-t", str(self.folder / f"{user}.keytab"), f"{user}@{NAME}"]
        subprocess.run(kinit, env=environment, check=True, capture_output=True, text=True)
        return environment

    def stop(self) -> None:
        self._kdc.terminate()
        self._kdc.wait()

    def _run(self, *command: str) -> None:
        program = shutil.which(command[0], path=self.service_environment["PATH"])
        assert program, f"{command[0]} is missing; as root: apt-get install krb5-kdc krb5-admin-server krb5-user"
        done = subprocess.run([program, *command[1:]], env=self.service_environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


def _wait_for(port: int, process: subprocess.Popen) -> None:
    while process.poll() is None:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("the KDC ended at once")


_CLIENTS = """
[libdefaults]
    default_realm = {name}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
[realms]
    {name} = {{
        kdc = 127.0.0.1:{port}
    }}
[domain_realm]
    localhost = {name}
"""

_KDC = """
[kdcdefaults]
    kdc_listen = ""
    kdc_tcp_listen = 127.0.0.1:{port}
[realms]
    {name} = {{
        database_name = {folder}/principal
        key_stash_file = {folder}/stash
        acl_file = {folder}/kadm5.acl
        supported_enctypes = aes256-cts-hmac-sha1-96:normal
    }}
[logging]
    kdc = FILE:{folder}/kdc.log
"""
