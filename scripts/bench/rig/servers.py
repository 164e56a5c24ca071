"""PostgreSQL and Redis for benchmarks, each in a new folder and on a free port."""

import contextlib, glob, os, pwd, signal, socket, subprocess, sys, time


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def wait_for(ready, process, name):
    while not ready():
        if process.poll() is not None:
            sys.exit(f"{name} did not start")
        time.sleep(0.05)


class Postgres:
    """A server with the settings of Debian's package: fsync on, but more buffers, and no autovacuum, which would disturb runs."""

    SETTINGS = ["shared_buffers=256MB", "max_connections=200", "max_wal_size=4GB", "autovacuum=off"]

    def __init__(self, process, port):
        self.pid, self.port = process.pid, port

    def psql(self, database, sql, **options):
        words = ["psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-d", database, "-qAtX",
                 "-v", "ON_ERROR_STOP=1", "-c", sql]
        return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, cwd="/", **options).stdout

    def database(self, name):
        """Creates an empty database. Returns its URL."""
        self.psql("postgres", f"CREATE DATABASE {name}")
        return f"postgres://postgres@127.0.0.1:{self.port}/{name}"


@contextlib.contextmanager
def postgres(folder):
    programs = max(glob.glob("/usr/lib/postgresql/*/bin"), default=None)
    if not programs:
        sys.exit("PostgreSQL is needed: install the Debian package postgresql")
    data, port, as_user = os.path.join(folder, "postgres"), free_port(), {}
    os.chmod(folder, 0o755)
    os.mkdir(data, 0o700)
    if os.geteuid() == 0:  # it does not run as root
        account = pwd.getpwnam("postgres")
        os.chown(data, account.pw_uid, account.pw_gid)
        as_user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    subprocess.run([f"{programs}/initdb", "-D", data, "-U", "postgres", "--auth=trust", "-E", "UTF8", "--no-sync"],
                   check=True, stdout=subprocess.DEVNULL, cwd="/", **as_user)
    settings = [word for setting in Postgres.SETTINGS for word in ("-c", setting)]
    process = subprocess.Popen([f"{programs}/postgres", "-D", data, "-p", str(port), "-k", "", "-h", "127.0.0.1", *settings],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", **as_user)
    try:
        ping = ["psql", "-h", "127.0.0.1", "-p", str(port), "-U", "postgres", "-qc", "SELECT 1"]
        wait_for(lambda: not subprocess.run(ping, capture_output=True).returncode, process, "postgres")
        yield Postgres(process, port)
    finally:
        process.send_signal(signal.SIGINT)  # its fast stop
        process.wait()


class Redis:
    def __init__(self, process, port):
        self.pid, self.url = process.pid, f"redis://127.0.0.1:{port}"


@contextlib.contextmanager
def redis(folder):
    """Starts Redis without persistence, because it holds only counters."""
    port = free_port()
    try:
        process = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder],
                                   stdout=subprocess.DEVNULL)
    except FileNotFoundError:
        sys.exit("Redis is needed: install the Debian package redis-server")
    try:
        ping = ["redis-cli", "-p", str(port), "ping"]
        wait_for(lambda: not subprocess.run(ping, capture_output=True).returncode, process, "redis-server")
        yield Redis(process, port)
    finally:
        process.terminate()
        process.wait()
