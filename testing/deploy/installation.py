"""Installations whose parts can be broken: the topology of deploy/compose, and one process on one machine."""

import glob
import http.client
import json
import os
import pwd
import shutil
import signal
import subprocess
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from processes import ANY, Names, Process, Proxy, free_port, get, service_token, wait_for

FLAGS = ["--drain-deadline", "1s"]
BANNED_KEYS = 25
PETS = 2_000  # so many that most pages of the file hold pets


def as_postgres() -> dict:
    """Returns the options of a process of PostgreSQL, which does not run as root."""
    if os.geteuid() != 0:
        return {}
    account = pwd.getpwnam("postgres")
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


class Postgres:
    PROGRAMS = max(glob.glob("/usr/lib/postgresql/*/bin"), default="")

    def __init__(self, stack: ExitStack, folder: Path):
        self.port = free_port()
        self.process = Process(stack, folder, "postgres", f"{self.PROGRAMS}/postgres", "-D", "postgres", "-p", str(self.port),
                               "-k", "", "-h", "127.0.0.1", **as_postgres())  # fmt: skip
        self.url = f"postgres://postgres@127.0.0.1:{self.port}/petstore"
        self.wait()

    def wait(self) -> None:
        wait_for("PostgreSQL answers", lambda: self.psql("postgres", "SELECT 1"), 60)

    def psql(self, database: str, *statements: str) -> bool:
        """Executes statements, each in its own transaction. Returns `True` if all succeed."""
        commands = [word for sql in statements for word in ("-c", sql)]
        words = ["psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-d", database, "-qAtX", "-v", "ON_ERROR_STOP=1"]
        return subprocess.run([*words, *commands], capture_output=True, cwd="/").returncode == 0

    def end(self) -> None:
        """Ends the server at once, and with it its connections."""
        self.process.child.send_signal(signal.SIGQUIT)
        self.process.child.wait(20)

    def set(self, setting: str) -> None:
        assert self.psql("postgres", f"ALTER SYSTEM {setting}", "SELECT pg_reload_conf()"), setting


class Template:
    """Stores with accounts, keys and pets, which installations begin with."""

    def __init__(self, folder: Path, binary: str):
        self.folder, self.binary = folder, binary
        folder.chmod(0o755)
        (folder / "postgres").mkdir(mode=0o700)
        if user := as_postgres().get("user"):
            os.chown(folder / "postgres", user, as_postgres()["group"])
        subprocess.run([f"{Postgres.PROGRAMS}/initdb", "-D", folder / "postgres", "-U", "postgres", "--auth=trust", "-E", "UTF8", "--no-sync"],
                       check=True, stdout=subprocess.DEVNULL, cwd="/", **as_postgres())  # fmt: skip
        with ExitStack() as stack:
            server = Postgres(stack, folder)
            assert server.psql("postgres", "CREATE DATABASE petstore")
            self.keys = self.fill(server.url)
            subprocess.run([binary, "account", "create", "banned", "--plan", "enterprise", "--per-minute", "1", "--per-day", "1",
                            "--database-url", server.url], check=True, stdout=subprocess.DEVNULL)  # fmt: skip
            self.banned = [self.key("banned", server.url) for _ in range(BANNED_KEYS)]
            server.psql("postgres", "CHECKPOINT")
        (folder / "data").mkdir()
        database = f"sqlite://{folder}/data/petstore.db"
        self.local_keys = self.fill(database)
        pets = folder / "pets.ndjson"
        pets.write_text("".join(json.dumps({"name": "x" * 255, "categoryId": 1}) + "\n" for _ in range(PETS)))
        subprocess.run([binary, "import", pets, "--database-url", database], check=True, capture_output=True)

    def fill(self, database: str) -> dict[str, str]:
        """Creates the schema, and accounts with a key each. Returns the keys."""
        subprocess.run([self.binary, "migrate", "up", "--database-url", database], check=True, stdout=subprocess.DEVNULL)
        for name, per_minute in (("busy", "1000000"), ("flood", "60")):
            subprocess.run([self.binary, "account", "create", name, "--plan", "enterprise", "--per-minute", per_minute, "--per-day", "1000000",
                            "--database-url", database], check=True, stdout=subprocess.DEVNULL)  # fmt: skip
        return {name: self.key(name, database) for name in ("busy", "flood")}

    def key(self, account: str, database: str) -> str:
        words = [self.binary, "key", "create", "--account", account, "--database-url", database]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


class Installation:
    """A running installation. `targets` has the admin ports by their names in prometheus.yaml."""

    targets: dict[str, str]
    rest: tuple[str, int]
    keys: dict[str, str]

    def readyz(self, name: str) -> dict:
        host, port = self.targets[name].split(":")
        try:
            return json.loads(get((host, int(port)), "/readyz")[2])
        except ValueError:  # nothing answers there, or another process until the port is its own
            return {}


class Cluster(Installation):
    """The topology of deploy/compose: a proxy, two gateways, two cores, PostgreSQL and Redis. Gateways reach the cores by the
    proxy (`balancer`), by an address each (`urls`), or by one name with both addresses (`name`)."""

    HOSTS = {"core-1": "127.0.0.2", "core-2": "127.0.0.3"}
    WITH_NAMES = 'mount --bind "$0" /etc/hosts && exec "$@"'

    def __init__(self, stack: ExitStack, folder: Path, template: Template, on_redis_failure: str = "local", cores: str = "balancer"):
        self.stack, self.folder, self.template, self.on_redis_failure, self.reached_by = stack, folder, template, on_redis_failure, cores
        (folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{host} cores.example\n" for host in self.HOSTS.values()))
        self.keys = template.keys
        subprocess.run(["cp", "-a", template.folder / "postgres", folder / "postgres"], check=True)
        folder.chmod(0o755)
        self.postgres = Postgres(stack, folder)
        self.redis_port = free_port()
        self.redis = Process(stack, folder, "redis", "redis-server", "--port", str(self.redis_port), "--save", "")
        self.token = service_token(folder)
        self.proxy = Proxy(stack, folder)
        self.rest = self.proxy.address(8080)
        self.targets = {}
        self.ports: dict[str, tuple[int, int]] = {}
        self.processes: dict[str, Process] = {}
        shared_port = free_port()
        for name in ("core-1", "core-2", "gateway-1", "gateway-2"):
            ports = shared_port if cores == "name" and name in self.HOSTS else free_port(), free_port()
            self.ports[name], self.targets[f"{name}:9090"] = ports, f"127.0.0.1:{ports[1]}"
            if name == "gateway-1":
                self.core_url = self.url_of_cores()
            self.processes[name] = self.start(name, *ports)
        self.proxy.start(self.ports, Names(stack, is_known=True))
        for name in self.targets:
            wait_for(f"{name} is ready", lambda name=name: self.readyz(name).get("status") == "ok", 60)
        wait_for("the proxy answers", lambda: get(self.rest, "/v1/pets", self.keys["busy"])[0] == 200, 60)

    def start(self, name: str, port: int, admin: int, **options) -> Process:
        role, _, _ = name.partition("-")
        words = [self.template.binary, role, "--admin-addr", f"127.0.0.1:{admin}", "--service-token-file", self.token, *FLAGS]
        if role == "core":
            words += ["--grpc-addr", f"{self.host(name)}:{port}", "--database-url", self.postgres.url]
        else:
            words += ["--http-addr", f"127.0.0.1:{port}", "--redis-url", f"redis://127.0.0.1:{self.redis_port}", "--gateways", "2",
                      "--on-redis-failure", self.on_redis_failure, "--trusted-proxy", "127.0.0.1", "--core-url", self.core_url]  # fmt: skip
            if self.reached_by == "name":
                words = ["unshare", "--map-root-user", "--mount", "sh", "-ec", self.WITH_NAMES, str(self.folder / "hosts"), *words]
        return Process(self.stack, self.folder, name, *words, **options)

    def host(self, core: str) -> str:
        """Returns the host of a core's port. The proxy looks for all servers at one."""
        return "127.0.0.1" if self.reached_by == "balancer" else self.HOSTS[core]

    def url_of_cores(self) -> str:
        """Returns the value of --core-url."""
        if self.reached_by == "balancer":
            return f"http://127.0.0.1:{self.proxy.address(50051)[1]}"
        hosts = ["cores.example"] if self.reached_by == "name" else list(self.HOSTS.values())
        return ",".join(f"http://{host}:{self.ports[core][0]}" for host, core in zip(hosts, self.HOSTS, strict=False))

    def cores(self) -> list[Process]:
        return [self.processes["core-1"], self.processes["core-2"]]


class Single(Installation):
    """One process on SQLite, with its store on a disk of 128 MiB that only it sees, and certificates."""

    DISK = 'mkdir -p data && mount -t tmpfs -o size=128m tmpfs data && cp "$0"/petstore.db data/ && exec "$@"'

    def __init__(self, stack: ExitStack, folder: Path, template: Template):
        self.stack, self.folder, self.keys = stack, folder, template.local_keys
        for port in ("https", "grpc"):
            self.certificate(port, 90)
        words = [template.binary, "serve", "--http-addr", ANY, "--grpc-addr", ANY, "--admin-addr", ANY, *FLAGS,
                 "--https-addr", ANY, "--https-cert", "https-certificate.pem", "--https-key", "https-key.pem",
                 "--tls-cert", "grpc-certificate.pem", "--tls-key", "grpc-key.pem"]  # fmt: skip
        self.process = Process(stack, folder, "serve", "unshare", "--map-root-user", "--mount", "sh", "-ec", self.DISK,
                               str(template.folder / "data"), *words)  # fmt: skip
        self.rest, admin = self.process.announced("REST"), self.process.announced("admin")
        self.targets = {"gateway-1:9090": f"{admin[0]}:{admin[1]}"}
        wait_for("it is ready", lambda: self.readyz("gateway-1:9090").get("status") == "ok", 60)
        self.data = Path(f"/proc/{self.process.child.pid}/root{folder}/data")

    def certificate(self, port: str, days: int) -> None:
        new = {name: self.folder / f"new-{port}-{name}" for name in ("certificate.pem", "key.pem")}
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", new["key.pem"],
                        "-out", new["certificate.pem"], "-days", str(days), "-subj", "/CN=localhost"], check=True, capture_output=True)  # fmt: skip
        for name, path in new.items():
            path.rename(self.folder / f"{port}-{name}")


class Caller:
    """A client with one connection, from one address of this machine."""

    def __init__(self, address: tuple[str, int], key: str, source: str = "127.0.0.1"):
        self.address, self.key, self.source = address, key, source
        self.connection: http.client.HTTPConnection | None = None

    def send(self, number: int) -> int:
        """Sends a request: reads a pet, now and then a page, or adds a pet. Returns the status, or 0 without an answer."""
        method, path, body = "GET", f"/v1/pets/{number % PETS + 1}", None
        if number % 4 == 0:
            path = "/v1/pets"
        if number % 4 == 1:
            method, path, body = "POST", "/v1/pets", '{"name":"Rex","categoryId":1}'
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        while True:
            if is_new := self.connection is None:
                self.connection = http.client.HTTPConnection(*self.address, timeout=10, source_address=(self.source, 0))
            try:
                self.connection.request(method, path, body, headers)
                answer = self.connection.getresponse()
                answer.read()
                return answer.status
            except (OSError, http.client.HTTPException):
                self.connection = None
                if is_new:  # otherwise it may just have been closed
                    return 0


class Load(threading.Thread):
    """Requests of a caller at a fixed rate."""

    def __init__(self, caller: Caller, per_second: float):
        super().__init__(daemon=True)
        self.caller, self.interval = caller, 1 / per_second
        self.answers: list[tuple[float, int]] = []
        self.is_over = threading.Event()
        self.start()

    def run(self) -> None:
        due, number = time.monotonic(), 0
        while not self.is_over.wait(max(0, due - time.monotonic())):
            due = max(due + self.interval, time.monotonic() - 1)  # it makes up for at most a second
            number += 1
            self.answers.append((time.monotonic(), self.caller.send(number)))

    def failed(self, since: float) -> float:
        """Returns the share of requests since a time that had a status of 5xx or no answer."""
        statuses = [status for at, status in list(self.answers) if at >= since]
        return sum(status == 0 or status >= 500 for status in statuses) / max(1, len(statuses))

    def end(self) -> None:
        self.is_over.set()
