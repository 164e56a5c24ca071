"""The table of faults: how each is made real and healed, who is notified about it, and what /readyz says."""

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from installation import PETS, Caller, Cluster, Installation, Load, Single
from processes import Process, get, wait_for


@dataclass
class Fault:
    name: str
    how: str
    make: Callable[[Installation], None]
    heal: Callable[[Installation], None] | None
    page: str = ""
    tickets: frozenset[str] = frozenset()
    within: int = 120  # seconds until all of them are notified, at the speed of the shipped files
    kind: Callable[..., Installation] = Cluster
    says: dict[str, tuple[str, str]] = field(default_factory=dict)  # part and cause in /readyz, by process
    scraped: str = ""  # the role that is scraped, if not all are
    afterwards: int = 0  # seconds after it is healed in which nobody is notified again, at the speed of the shipped files


def all_cores(action: Callable[[Process], None]) -> Callable[[Cluster], None]:
    return lambda cluster: [action(core) for core in cluster.cores()] and None


def one(name: str, action: Callable[[Process], None]) -> Callable[[Cluster], None]:
    return lambda cluster: action(cluster.processes[name])


def freeze(process: Process) -> None:
    process.child.send_signal(signal.SIGSTOP)


def thaw(process: Process) -> None:
    process.child.send_signal(signal.SIGCONT)


def restart_postgres(cluster: Cluster) -> None:
    cluster.postgres.process.start()
    cluster.postgres.wait()


def change_tokens(names: tuple[str, ...], cluster: Cluster) -> None:
    """Restarts cores with another token than that of the gateways and of other cores."""
    token = cluster.folder / "other-token"
    token.write_text("0" * 64)
    token.chmod(0o600)
    shared, cluster.token = cluster.token, str(token)
    restore_tokens(names, cluster)
    cluster.token = shared


def restore_tokens(names: tuple[str, ...], cluster: Cluster) -> None:
    for name in names:
        cluster.processes[name].stop()
        cluster.processes[name] = cluster.start(name, *cluster.ports[name])


class Rewriter:
    """A proxy in front of the cores that removes a method from their list: it writes another name over it."""

    OLD, NEW = b"UsageService/GetUsage", b"UsageService/GotUsage"

    def __init__(self, to: int):
        self.to, self.socket = to, socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.to))
            for source, target, old in ((client, server, b""), (server, client, self.OLD)):
                threading.Thread(target=self.copy, args=(source, target, old), daemon=True).start()

    def copy(self, source: socket.socket, target: socket.socket, old: bytes) -> None:
        try:
            while data := source.recv(65_536):
                target.sendall(data.replace(old, self.NEW) if old else data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def lack_a_method(cluster: Cluster) -> None:
    """Restarts the gateways before cores that lack a method."""
    rewriter = Rewriter(cluster.proxy.address(50051)[1])
    cluster.stack.callback(rewriter.socket.close)
    cluster.core_url = f"http://127.0.0.1:{rewriter.port}"
    restart_gateways(cluster)


def restore_methods(cluster: Cluster) -> None:
    cluster.core_url = cluster.url_of_cores()
    restart_gateways(cluster)


def restart_gateways(cluster: Cluster) -> None:
    for name in ("gateway-1", "gateway-2"):
        cluster.processes[name].stop()
        cluster.processes[name] = cluster.start(name, *cluster.ports[name])


def fill_disk(free: float) -> Callable[[Single], None]:
    """Fills the disk until the given share of it is free."""

    def fill(single: Single) -> None:
        disk = os.statvfs(single.data)
        (single.data / "filler").write_bytes(bytes(int(disk.f_frsize * (disk.f_bavail - free * disk.f_blocks))))

    return fill


def use_up_disk(single: Single) -> None:
    """Fills the disk, and adds pets until the pages that the store already has are used up."""
    with suppress(OSError):  # the store may take the last bytes
        fill_disk(0)(single)
    caller = Caller(single.rest, single.keys["busy"])
    wait_for("an addition fails", lambda: caller.send(1) == 503, 60)


def make_room(single: Single) -> None:
    (single.data / "filler").unlink()


def damage(single: Single) -> None:
    """Overwrites the second half of the file, and reads what was there."""
    with (single.data / "petstore.db").open("r+b") as file:
        length = file.seek(0, os.SEEK_END)
        file.seek(length // 2)
        file.write(b"\xa5" * (length - length // 2))
    for pet in range(PETS - 100, PETS, 10):
        get(single.rest, f"/v1/pets/{pet}", single.keys["busy"])


def expire_soon(port: str) -> Callable[[Single], None]:
    return lambda single: single.certificate(port, 5)


def renew(port: str) -> Callable[[Single], None]:
    return lambda single: single.certificate(port, 90)


def flood(key: str, per_second: float, sources: tuple[str, ...]) -> Callable[[Cluster], None]:
    def begin(cluster: Cluster) -> None:
        callers = [Caller(cluster.rest, cluster.keys.get(key, key), source) for source in sources]
        cluster.floods = [Load(caller, per_second / len(sources)) for caller in callers]

    return begin


def end_flood(cluster: Cluster) -> None:
    for load in cluster.floods:
        load.end()


def ban_many(cluster: Cluster) -> None:
    """Sends with many keys of an account that may send one request, until all of them are banned."""
    callers = [Caller(cluster.rest, key, "127.0.0.9") for key in cluster.template.banned]

    def ignore_refusals(caller: Caller) -> None:
        for number in range(STRIKES):
            caller.send(number)

    for caller in callers:
        wait_for("the first 429", lambda caller=caller: caller.send(0) == 429)
    time.sleep(1.1)  # requests in the first second are not yet held against a key
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ignore_refusals, callers))


def rename(table: str, name: str) -> Callable[[Cluster], None]:
    def run(cluster: Cluster) -> None:
        assert cluster.postgres.psql("petstore", f"ALTER TABLE {table} RENAME TO {name}")

    return run


def change_late(cluster: Cluster) -> None:
    """Changes an account while a gateway stands still."""
    gateway = cluster.processes["gateway-1"]
    freeze(gateway)
    words = [cluster.template.binary, "account", "set-plan", "flood", "--plan", "pro", "--database-url", cluster.postgres.url]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    time.sleep(7)
    thaw(gateway)


STRIKES = 105  # requests after 429 that ban a key: more than 100
ONE_ADDRESS = ("127.0.0.2",)
FOUR_ADDRESSES = ("127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5")
INSTANCE_DOWN = frozenset({"PetstoreInstanceDown"})
GATEWAYS = ("gateway-1:9090", "gateway-2:9090")
CORES = ("core-1:9090", "core-2:9090")

FAULTS = [
    Fault("One core of two is dead", "SIGKILL", one("core-1", Process.kill), one("core-1", lambda core: core.start()),
          tickets=INSTANCE_DOWN, within=180),
    Fault("One core of two hangs", "SIGSTOP", one("core-1", freeze), one("core-1", thaw), tickets=INSTANCE_DOWN, within=180),
    Fault("One gateway of two is dead", "SIGKILL", one("gateway-1", Process.kill), one("gateway-1", lambda gateway: gateway.start()),
          tickets=INSTANCE_DOWN, within=180),
    Fault("All cores are dead", "SIGKILL", all_cores(Process.kill), all_cores(lambda core: core.start()), page="PetstoreCoreAway",
          says=dict.fromkeys(GATEWAYS, ("core", "unreachable")), afterwards=480),
    Fault("All cores are dead, and Prometheus scrapes only gateways", "SIGKILL", all_cores(Process.kill),
          all_cores(lambda core: core.start()), page="PetstoreCoreAway", scraped="gateway",
          says=dict.fromkeys(GATEWAYS, ("core", "unreachable"))),
    Fault("All cores hang", "SIGSTOP", all_cores(freeze), all_cores(thaw), page="PetstoreCoreAway",
          says=dict.fromkeys(GATEWAYS, ("core", "unreachable"))),
    *[Fault(f"{which} the token, {naming}", how, partial(change_tokens, names), partial(restore_tokens, names),
            page="PetstoreCoreRefuses", kind=partial(Cluster, cores=cores), says=dict.fromkeys(GATEWAYS, ("core", "token_refused")))
      for cores, naming in (("balancer", "behind a balancer"), ("urls", "with an address each"), ("name", "with one name"))
      for which, how, names in (("A core refuses", "one of two cores restarts with another token", ("core-2",)),
                                ("All cores refuse", "both cores restart with another token", ("core-1", "core-2")))],
    Fault("The cores lack a method", "gateways restart in front of a proxy that removes it from the cores' list", lack_a_method,
          restore_methods, page="PetstoreNotReady", says=dict.fromkeys(GATEWAYS, ("core", "lacks_methods"))),
    Fault("All gateways are dead", "SIGKILL", lambda cluster: [cluster.processes[f"gateway-{n}"].kill() for n in (1, 2)] and None,
          lambda cluster: [cluster.processes[f"gateway-{n}"].start() for n in (1, 2)] and None, page="PetstoreDown"),
    Fault("Redis is dead", "SIGKILL", lambda cluster: cluster.redis.kill(), lambda cluster: cluster.redis.start(),
          page="PetstoreLimitsNotShared", says=dict.fromkeys(GATEWAYS, ("limiter", "redis_unreachable"))),
    Fault("Redis is dead, and gateways then refuse requests", "SIGKILL, with `--on-redis-failure closed`",
          lambda cluster: cluster.redis.kill(), lambda cluster: cluster.redis.start(), page="PetstoreLimitsNotShared",
          kind=partial(Cluster, on_redis_failure="closed"), says=dict.fromkeys(GATEWAYS, ("limiter", "redis_unreachable"))),
    Fault("PostgreSQL is dead", "SIGQUIT, which ends it and its connections at once", lambda cluster: cluster.postgres.end(),
          restart_postgres, page="PetstoreDatabaseAway", says=dict.fromkeys(CORES, ("database", "unreachable"))),
    Fault("PostgreSQL is read-only", "`default_transaction_read_only`",
          lambda cluster: cluster.postgres.set("SET default_transaction_read_only = on"),
          lambda cluster: cluster.postgres.set("RESET default_transaction_read_only"), page="PetstoreWritesFail",
          says=dict.fromkeys(CORES, ("database", "read_only"))),
    Fault("The disk of SQLite is full", "a file that leaves no byte free", use_up_disk, make_room, page="PetstoreWritesFail",
          kind=Single, says={GATEWAYS[0]: ("database", "disk_full")}),
    Fault("The disk of SQLite fills up", "a file that leaves 8 %", fill_disk(0.08), make_room, page="PetstoreDiskFillsUp",
          within=420, kind=Single),
    Fault("The database is damaged", "half of the pages of the SQLite file are overwritten", damage, None,
          page="PetstoreDatabaseDamaged", kind=Single, says={GATEWAYS[0]: ("database", "damaged")}),
    Fault("One account sends more than its limit", "10 requests a second of an account that may send one",
          flood("flood", 10, ONE_ADDRESS), end_flood, tickets=frozenset({"PetstoreRefusalsSurge"}), within=900),
    Fault("Many keys are banned", "25 keys keep sending after 429", ban_many, lambda _: None, tickets=frozenset({"PetstoreManyBans"}),
          within=420),
    Fault("Requests without a valid key from one address", "40 a second", flood("junk", 40, ONE_ADDRESS), end_flood,
          tickets=frozenset({"PetstoreUnauthorizedFlood"}), within=600),
    Fault("Requests without a valid key from four addresses", "9 a second each", flood("junk", 36, FOUR_ADDRESSES), end_flood,
          tickets=frozenset({"PetstoreUnauthorizedFlood"}), within=600),
    Fault("The gRPC port's certificate expires soon", "one that is valid for 5 days", expire_soon("grpc"), renew("grpc"),
          tickets=frozenset({"PetstoreCertificateExpires"}), within=420, kind=Single),
    Fault("The HTTPS certificate expires soon", "one that is valid for 5 days", expire_soon("https"), renew("https"),
          tickets=frozenset({"PetstoreCertificateExpires"}), within=420, kind=Single),
    Fault("Usage cannot be reported", "its table is renamed", rename("usage_days", "moved"), rename("moved", "usage_days"),
          tickets=frozenset({"PetstoreUsageNotReported"}), within=600),
    Fault("A gateway applies a change late", "SIGSTOP for 7 s, and a change of plan meanwhile", change_late, lambda _: None,
          tickets=frozenset({"PetstoreKeyChangesLate"}), within=420),
]  # fmt: skip
