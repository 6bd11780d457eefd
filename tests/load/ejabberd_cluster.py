"""ejabberd as a cluster, for `cluster.py`: nodes that know each other by Erlang's distribution,
with accounts and archives in PostgreSQL.

It is configured as for `rookery bench peers` (`crates/bench/peers/`), plus stream management and
archives. Needs Debian's packages `ejabberd` and `erlang-p1-pgsql`.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from databases import free_port
from loads import ITERATIONS, SALT, base64ed, keys

TEMPLATES = Path(__file__).resolve().parent.parent.parent / "crates/bench/peers"
COOKIE = "rookery"


class Names:
    """The process from which Erlang's nodes learn each other's ports (epmd)."""

    def __init__(self):
        self.port = free_port()
        program = shutil.which("epmd") or next(Path("/usr/lib/erlang").glob("erts-*/bin/epmd"))
        self.process = subprocess.Popen([str(program), "-port", str(self.port), "-address", "127.0.0.1"])
        self.environment = {**os.environ, "ERL_EPMD_PORT": str(self.port), "ERL_EPMD_ADDRESS": "127.0.0.1"}

    def end(self):
        self.process.kill()
        self.process.wait()


class EjabberdNode:
    def __init__(self, number, database, name, names, folder):
        self.number, self.port, self.names = number, free_port(), names
        self.folder, self.ended, self.process = Path(folder, f"n{number}"), False, None
        self.folder.mkdir()
        values = {"DOMAIN": "localhost", "PORT": self.port, "WEB": free_port(), "FOLDER": self.folder, "ITERATIONS": ITERATIONS}
        text = re.sub("@([A-Z]+)@", lambda found: str(values[found[1]]), (TEMPLATES / "ejabberd.yml").read_text())
        sql = f"sql_type: pgsql\nsql_server: 127.0.0.1\nsql_port: {database.port}\nsql_database: {name}\nsql_username: rookery\nsql_password: none\n"
        text = text.replace("auth_method: mnesia", "auth_method: sql").replace("default_db: mnesia", f"{sql}default_db: sql")
        text = text.replace("  mod_ping: {}", "  mod_ping: {}\n  mod_stream_mgmt:\n    resend_on_timeout: true\n  mod_mam:\n    default: always")
        (self.folder / "ejabberd.yml").write_text(text)

    @property
    def name(self):
        return f"n{self.number}@localhost"

    def start(self):
        libraries = re.search(r"^ERL_LIBS=['\"]?([^'\"\n]+)", Path("/usr/sbin/ejabberdctl").read_text(), re.M)[1]
        environment = {
            **self.names.environment,
            "EJABBERD_CONFIG_PATH": str(self.folder / "ejabberd.yml"),
            "EJABBERD_LOG_PATH": str(self.folder / "log"),
            "HOME": str(self.folder),
            "ERL_LIBS": libraries,
            "ERL_CRASH_DUMP_BYTES": "0",
        }
        words = ["erl", "-sname", self.name, "-setcookie", COOKIE, "-start_epmd", "false", "-kernel", "inet_dist_use_interface", "{127,0,0,1}"]
        words += "+K true +P 1000000 +Q 262144 +sbwt none +sbwtdcpu none +sbwtdio none -noinput -mnesia dir".split()
        words += [f'"{self.folder}/spool"', "-s", "ejabberd"]
        with (self.folder / "output").open("ab") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, env=environment)

    def watch(self):
        """Does nothing: only the code that ended the node restarts it."""

    def wait(self):
        end = time.time() + 60
        while time.time() < end:
            assert self.process.poll() is None, (self.folder / "output").read_text()[-2000:]
            if self.asked("[C || {C, _, _} <- application:which_applications(), C =:= ejabberd]") == "[ejabberd]":
                return
            time.sleep(0.5)
        raise TimeoutError((self.folder / "output").read_text()[-2000:])

    def asked(self, expression):
        """Evaluates an expression in the node, and returns its value as Erlang writes it."""
        code = (
            f"case rpc:call('{self.name}', erl_eval, exprs, [element(2, erl_parse:parse_exprs(element(2, erl_scan:string(\"{expression}.\")))), []]) of "
            '{value, V, _} -> io:format("~p", [V]); Other -> io:format("no: ~p", [Other]) end, halt().'
        )
        words = ["erl", "-noinput", "-hidden", "-sname", f"ask{os.getpid()}@localhost", "-setcookie", COOKIE, "-start_epmd", "false", "-eval", code]
        ended = subprocess.run(words, text=True, capture_output=True, env={**self.names.environment, "HOME": str(self.folder)}, timeout=60)
        return ended.stdout.strip()

    def end(self, how=signal.SIGTERM):
        self.ended = True
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class EjabberdCluster:
    def __init__(self, database, options, _scenario):
        self.folder = tempfile.mkdtemp(prefix="rookery-ejabberd-")
        os.chmod(self.folder, 0o755)
        self.database, self.names, self.redis = database, Names(), None
        name = database.database()
        database.sql(Path("/usr/share/ejabberd/sql/pg.sql").read_text(), name)
        (stored, server), salt = map(base64ed, keys()), base64ed(SALT)
        database.sql(
            "INSERT INTO users (username, password, serverkey, salt, iterationcount)"
            f" SELECT 'user' || lpad(account::text, 7, '0'), '{stored}', '{server}', '{salt}', {ITERATIONS} FROM generate_series(0, {options.users - 1}) AS account; ANALYZE",
            name,
        )
        self.nodes = [EjabberdNode(number + 1, database, name, self.names, self.folder) for number in range(options.nodes)]
        try:
            first = self.nodes[0]
            first.start()
            first.wait()
            for node in self.nodes[1:]:
                node.start()
                node.wait()
                said = node.asked(f"ejabberd_cluster:join('{first.name}')")
                assert said == "ok", said
                node.wait()
            time.sleep(3)
        except BaseException:
            self.remove()
            raise

    def start(self, node):
        node.ended = False
        node.start()

    def remove(self):
        for node in self.nodes:
            node.end(signal.SIGKILL)
        self.names.end()
        shutil.rmtree(self.folder, ignore_errors=True)
