"""A session through deploy/compose/haproxy.cfg: two gateways, a core and Redis, all real, on ports of the system's choice.
The core asks for the token that deploy/compose.yaml makes.

Of the two cores that the file names only one is there, so that the proxy has one to leave out.
"""

import json
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from processes import ANY, Names, Process, Proxy, free_port, get, service_token, wait_for

BINARY = sys.argv[1]
PER_MINUTE = 20


def start(stack: ExitStack, folder: Path):
    """Returns the addresses of the proxy for REST and for the console, the gateways, the core, and the name server, which
    does not know any names yet."""
    redis_port = str(free_port())
    Process(stack, folder, "redis", "redis-server", "--port", redis_port, "--save", "")
    token = ["--service-token-file", service_token(folder)]
    core = Process(stack, folder, "core", BINARY, "core", "--grpc-addr", ANY, "--admin-addr", ANY, *token)
    proxy = Proxy(stack, folder)
    settings = ["--http-addr", ANY, "--admin-addr", ANY, "--core-url", f"http://127.0.0.1:{proxy.address(50051)[1]}",
                "--redis-url", f"redis://127.0.0.1:{redis_port}", "--gateways", "2", "--trusted-proxy", "127.0.0.1", "--drain-delay", "3s", *token]
    gateways = [Process(stack, folder, f"gateway-{n}", BINARY, "gateway", *settings) for n in (1, 2)]
    servers = {f"gateway-{n}": (gateway.announced("REST")[1], gateway.announced("admin")[1]) for n, gateway in enumerate(gateways, 1)}
    none = free_port()
    servers |= {"core-1": (core.announced("gRPC")[1], core.announced("admin")[1]), "core-2": (none, none)}
    names = Names(stack)
    proxy.start(servers, names)
    return proxy.address(8080), proxy.address(9090), gateways, core, names


def hold(address: tuple[str, int], own: str) -> socket.socket | None:
    """Opens a connection from one of this machine's addresses, with a request without a key. Returns `None` if it is reset."""
    try:
        connection = socket.create_connection(address, timeout=5, source_address=(own, 0))
        connection.sendall(b"GET /docs HTTP/1.1\r\nHost: a\r\n\r\n")
    except ConnectionError:
        return None
    return connection


def is_open(connection: socket.socket) -> bool:
    """Reads what has arrived. Returns whether the connection is open."""
    connection.setblocking(False)
    try:
        while connection.recv(65_536):
            pass
    except BlockingIOError:
        return True
    except ConnectionError:
        pass
    return False


def requests_of(gateway: Process) -> int:
    """Returns the number of requests that the gateway has answered."""
    lines = get(gateway.announced("admin"), "/metrics")[2].decode().splitlines()
    return sum(int(line.split()[-1]) for line in lines if line.startswith("petstore_requests_total{"))


def session(stack: ExitStack, folder: Path) -> None:
    proxy, console, gateways, core, names = start(stack, folder)

    def admin(*arguments: str) -> str:
        return subprocess.run([BINARY, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()

    def key_of(account: str, per_minute: int) -> str:
        admin("account", "create", account, "--plan", "enterprise", "--per-minute", str(per_minute), "--per-day", "1000000")
        return admin("key", "create", "--account", account)

    key, busy = key_of("one", PER_MINUTE), key_of("busy", 1_000_000)
    # The proxy has started without any address, and learns them while it runs. Until then its failures are Errors.
    for address, path in ((proxy, "/v1/pets"), (console, "/admin/v1/accounts"), (console, "/console/health")):
        status, headers, body = get(address, path, busy)
        assert (status, headers["Content-Type"], headers["Retry-After"]) == (503, "application/json", "2"), (path, status, body)
        error = json.loads(body)
        assert (error["code"], error["status"], set(error)) == ("UNAVAILABLE", 503, {"code", "message", "status"}), (path, body)
    names.is_known = True
    for gateway in gateways:
        ready = gateway.announced("admin")
        wait_for(f"{gateway.log.name} is ready", lambda: json.loads(get(ready, "/readyz")[2] or b"{}").get("status") == "ok")
    wait_for("the proxy answers", lambda: get(proxy, "/v1/pets", busy)[0] == 200)

    statuses = [get(proxy, "/v1/pets", key)[0] for _ in range(PER_MINUTE + 5)]
    assert statuses == [200] * PER_MINUTE + [429] * 5, statuses

    def are_in_turn() -> bool:
        before = [requests_of(gateway) for gateway in gateways]
        for _ in range(4):
            get(proxy, "/v1/pets", busy)
        return [requests_of(gateway) - n for gateway, n in zip(gateways, before)] == [2, 2]

    wait_for("the proxy asks the gateways in turn", are_in_turn)  # on a busy machine it may leave one out

    # A forged address changes nothing: all these failures count for one address, at first in each gateway.
    left = [int(get(proxy, "/v1/pets", "junk", **{"X-Forwarded-For": f"192.0.2.{n}"})[1]["X-RateLimit-Remaining"]) for n in range(4)]
    assert left == [left[0], left[0], left[0] - 1, left[0] - 1], left

    # One address that opens all the connections that it may keeps no other address waiting.
    held = [hold(proxy, "127.0.0.2") for _ in range(300)]
    begin = time.monotonic()
    assert get(proxy, "/v1/pets", busy)[0] == 200
    assert time.monotonic() - begin < 2, time.monotonic() - begin
    open_now = sum(connection is not None and is_open(connection) for connection in held)
    assert 100 < open_now <= 256, open_now
    del held

    # The proxy passes the console and the admin API, and nothing else of the admin port.
    token = admin("operator", "create", "ann", "--role", "admin")
    status, headers, page = get(console, "/console")
    assert status == 200 and headers["Content-Type"].startswith("text/html"), (status, page)
    assert get(console, "/admin/v1/accounts")[0] == 401
    status, _, body = get(console, "/admin/v1/accounts", token)
    assert (status, len(json.loads(body)["accounts"])) == (200, 2), (status, body)
    for path in ("/metrics", "/readyz", "/log-level", "/console/../metrics"):
        status, _, body = get(console, path)
        assert (status, json.loads(body)["code"]) == (404, "ROUTE_NOT_FOUND"), (path, body)
    # The pages find the health of their gateway at a path of the console, before anybody has signed in.
    status, _, body = get(console, "/console/health", **{"Petstore-Console": "1"})
    assert (status, json.loads(body)) == (200, {"status": "ok", "parts": {"core": "ok", "limiter": "ok"}}), (status, body)

    # A gateway stops under load: no request fails.
    gateways[0].child.terminate()
    while gateways[0].child.poll() is None:
        status, _, body = get(proxy, "/v1/pets", busy)
        assert status == 200, (status, body)
    assert gateways[0].child.returncode == 0, gateways[0].log.read_text()
    for _ in range(20):
        assert get(proxy, "/v1/pets", busy)[0] == 200

    # Without any core, the gateway treats the proxy's own failure as an outage, not as a fault.
    core.stop()
    status, _, body = wait_for("the core's absence is seen", lambda: (answer := get(proxy, "/v1/pets", busy))[0] != 200 and answer)
    assert (status, json.loads(body)["code"]) == (503, "UNAVAILABLE"), (status, body)


with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
    session(stack, Path(directory))
print("  one limit over two gateways, one address behind the proxy, and a gateway that leaves unnoticed")
