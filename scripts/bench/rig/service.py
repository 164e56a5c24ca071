"""The service in one of its deployments, with its own servers and data."""

import contextlib, http.client, os, shlex, subprocess, sys, tempfile, time

from . import data, processes, servers

# Deployments: their processes, database and counters.
DEPLOYMENTS = {
    "one": "one process on SQLite, counting in itself",
    "one-postgres": "one process on PostgreSQL, counting in itself",
    "split": "a gateway and a core, PostgreSQL and Redis",
    "split-2": "two gateways and a core, PostgreSQL and Redis",
    "cores-2": "a gateway and two cores, PostgreSQL and Redis",
    "cores-4": "a gateway and four cores, PostgreSQL and Redis",
}

FREE = "127.0.0.1:0"


class Service:
    """A running service. `variant` is environment variables, a binary, flags for the process that serves REST, and after
    `--` flags for a core."""

    def __init__(self, variant, deployment, pets, accounts, https):
        self.variant, self.deployment, self.pets, self.accounts, self.https = variant, deployment, pets, accounts, https
        words, self.environment = shlex.split(variant), dict(os.environ)
        while "=" in words[0]:
            name, _, self.environment[name] = words.pop(0).partition("=")
        self.binary, (self.flags, self.core_flags) = os.path.abspath(words[0]), split(words[1:])
        self.pids, self.urls, self.admins = {}, [], []

    @contextlib.contextmanager
    def running(self):
        with contextlib.ExitStack() as self.stack:
            self.folder = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="petstore-bench-"))
            os.chmod(self.folder, 0o755)
            self.keys = data.keys_file(self.folder, self.accounts)
            postgres = None
            database = f"sqlite://{self.folder}/petstore.db"
            if self.deployment != "one":
                postgres = self.stack.enter_context(servers.postgres(self.folder))
                database = postgres.database("petstore")
            subprocess.run([self.binary, "migrate", "up", "--database-url", database], check=True, stdout=subprocess.DEVNULL,
                           env=self.environment)
            data.fill(database, postgres, self.pets, self.accounts)
            store = ["--database-url", database]
            if self.deployment.startswith("one"):
                self.start("serve", *store, "--grpc-addr", FREE, *self.edge(), *self.flags)
            else:
                redis = self.stack.enter_context(servers.redis(self.folder))
                several, _, number = self.deployment.partition("-")
                gateways, cores = (1, int(number)) if several == "cores" else (int(number or 1), 1)
                urls = []
                for name in numbered("core", cores):
                    core = self.start("core", *store, "--grpc-addr", FREE, *self.core_flags, name=name)
                    urls += ["--core-url", f"http://{core['gRPC']}"]
                counting = ["--redis-url", redis.url, "--gateways", str(gateways)]
                for name in numbered("gateway", gateways):
                    self.start("gateway", *urls, *counting, *self.edge(), *self.flags, name=name)
                self.pids["redis"] = redis.pid
            if postgres:
                self.pids["postgres"] = postgres.pid
            for admin in self.admins:
                self.await_readiness(admin)
            time.sleep(1)
            self.rest = self.memory("VmRSS")
            yield self

    def edge(self):
        """Returns flags that trust this machine as a proxy, because one address opens all connections of a benchmark."""
        flags = ["--trusted-proxy", "127.0.0.0/8"]
        if not self.https:
            return [*flags, "--http-addr", FREE]
        certificate, key = (os.path.join(self.folder, name) for name in ("certificate.pem", "key.pem"))
        if not os.path.exists(certificate):
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                            "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost",
                            "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        return [*flags, "--http-addr", "off", "--https-addr", FREE, "--https-cert", certificate, "--https-key", key]

    def start(self, command, *words, name=None):
        """Starts a process and waits until it prints its addresses. Returns them, by the first word of their line."""
        process = subprocess.Popen([self.binary, command, *words, "--admin-addr", FREE], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True, cwd=self.folder, env=self.environment)
        self.stack.callback(process.wait)
        self.stack.callback(process.terminate)
        said, last = {}, "admin" if command == "gateway" else "store"
        for line in process.stdout:
            first, _, rest = line.partition(" ")
            said[first] = rest.split()[0]
            if first == last:
                break
        else:
            sys.exit(f"{self.variant}: {command} did not start")
        self.pids[name or command] = process.pid
        self.admins.append(said["admin"].removeprefix("http://"))
        if url := said.get("HTTPS" if self.https else "REST"):
            self.urls.append(url.removesuffix("/v1"))
        return said

    @staticmethod
    def await_readiness(admin):
        for _ in range(200):
            connection = http.client.HTTPConnection(admin)
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
            time.sleep(0.05)
        sys.exit(f"http://{admin}/readyz does not become ready")

    def memory(self, field):
        """Returns the MiB of memory of each of the service's processes."""
        own = {name: pid for name, pid in self.pids.items() if name not in ("redis", "postgres")}
        return {name: processes.mebibytes(pid, field) for name, pid in own.items()}

    def cpu(self):
        """Returns the CPU seconds of each process, including PostgreSQL and Redis."""
        return {name: processes.cpu_seconds(pid) for name, pid in self.pids.items()}


def numbered(name, count):
    """Returns names of processes of one kind: "core", "core 2"…"""
    return [name if number == 1 else f"{name} {number}" for number in range(1, count + 1)]


def split(flags):
    """Returns the flags before `--`, and those after it."""
    place = flags.index("--") if "--" in flags else len(flags)
    return flags[:place], flags[place + 1:]
