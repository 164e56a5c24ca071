"""A session through deploy/compose/haproxy.cfg: two gateways, a core and Redis, all real, on ports of the system's choice.
The core asks for the token that deploy/compose.yaml makes.

Of the two cores that the file names only one is there, so that the proxy has one to leave out.
"""

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import yaml

BINARY = sys.argv[1]
ANY = "127.0.0.1:0"
PER_MINUTE = 20
PATIENCE = 20  # seconds until something that has to happen has happened


def wait_for(what: str, condition):
    deadline = time.monotonic() + PATIENCE
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise SystemExit(f"error: {what}: not within {PATIENCE} s")
        time.sleep(0.05)
    return result


class Process:
    """A process in a folder, which is stopped with the stack."""

    def __init__(self, stack: ExitStack, folder: Path, name: str, *command: str, **options):
        self.log = folder / f"{name}.log"
        with self.log.open("w") as log:
            self.child = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, **options)
        stack.callback(self.stop)

    def stop(self) -> int:
        self.child.terminate()
        return self.child.wait(PATIENCE)

    def announced(self, name: str) -> tuple[str, int]:
        """Returns the host and port that `petstore` prints for a service."""
        pattern = re.compile(rf"^{name} +(?:http://)?([\d.]+):(\d+)", re.MULTILINE)
        found = wait_for(f"{self.log.name} announces {name}", lambda: pattern.search(self.log.read_text()))
        return found[1], int(found[2])


class Names:
    """A name server. Once names are known, it resolves all of them to 127.0.0.1."""

    def __init__(self, stack: ExitStack):
        self.is_known = False
        self.socket = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            try:
                query, asker = self.socket.recvfrom(4096)
            except OSError:
                return  # closed
            end = query.index(0, 12) + 5  # the name, its type and its class
            is_ipv4 = query[end - 3] == 1
            # RFC 1035 §4.1: an answer with the question's name and a TTL of one second, or NXDOMAIN.
            answer = b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4\x7f\0\0\1" if self.is_known and is_ipv4 else b""
            flags = b"\x81\x80" if self.is_known else b"\x81\x83"
            head = query[:2] + flags + b"\0\1" + (b"\0\1" if answer else b"\0\0") + b"\0\0\0\0"
            self.socket.sendto(head + query[12:end] + answer, asker)


def get(address: tuple[str, int], path: str, key: str = "", **headers: str):
    connection = http.client.HTTPConnection(*address, timeout=PATIENCE)
    try:
        if key:
            headers["Authorization"] = f"Bearer {key}"
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    except ConnectionError as error:
        return 0, {}, str(error).encode()
    finally:
        connection.close()


def listening(stack: ExitStack) -> socket.socket:
    return stack.enter_context(socket.create_server(("127.0.0.1", 0)))


def service_token(folder: Path) -> str:
    """Creates the token file with the command in compose.yaml, twice: the second run leaves it as it is."""
    service = yaml.safe_load(Path("deploy/compose.yaml").read_text())["services"]["token"]
    script = service["command"][0].replace("/run/petstore", str(folder)).replace("65532:65532", f"{os.getuid()}:{os.getgid()}")
    made = []
    for _ in range(2):
        subprocess.run([*service["entrypoint"], script], check=True)
        made.append((folder / "service-token").read_text())
    assert made[0] == made[1] and re.fullmatch(r"[0-9a-f]{64}\n", made[0]), "the token that compose.yaml makes"
    return str(folder / "service-token")


def start(stack: ExitStack, folder: Path):
    """Returns the addresses of the proxy for REST and for the console, the gateways, the core, and the name server, which
    does not know any names yet."""
    redis = str(folder / "redis.sock")  # to find out when it listens; the gateways take its port
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        redis_port = str(reserved.getsockname()[1])
    Process(stack, folder, "redis", "redis-server", "--port", redis_port, "--unixsocket", redis, "--save", "")
    token = ["--service-token-file", service_token(folder)]
    core = Process(stack, folder, "core", BINARY, "core", "--grpc-addr", ANY, "--admin-addr", ANY, *token)
    rest, grpc, console = listening(stack), listening(stack), listening(stack)
    settings = ["--http-addr", ANY, "--admin-addr", ANY, "--core-url", f"http://127.0.0.1:{grpc.getsockname()[1]}",
                "--redis-url", f"redis://127.0.0.1:{redis_port}", "--gateways", "2", "--trusted-proxy", "127.0.0.1", "--drain-delay", "3s", *token]
    gateways = [Process(stack, folder, f"gateway-{n}", BINARY, "gateway", *settings) for n in (1, 2)]

    text = Path("deploy/compose/haproxy.cfg").read_text()
    for port, taken in ((8080, rest), (50051, grpc), (9090, console)):
        text = text.replace(f"bind :{port}", f"bind fd@{taken.fileno()}")
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        nobody = reserved.getsockname()[1]
    servers = {f"gateway-{n}": (gateway.announced("REST")[1], gateway.announced("admin")[1]) for n, gateway in enumerate(gateways, 1)}
    servers |= {"core-1": (core.announced("gRPC")[1], core.announced("admin")[1]), "core-2": (nobody, nobody)}
    for name, (port, admin) in servers.items():
        for expected, actual in ((8080, port), (50051, port), (9090, admin)):
            text = text.replace(f"server {name} {name}:{expected}", f"server {name} {name}:{actual} port {admin}")
    names = Names(stack)
    text, count = re.subn("parse-resolv-conf", f"nameserver dns 127.0.0.1:{names.port}", text)
    assert count == 1, "the name server"
    configuration = folder / "haproxy.cfg"
    configuration.write_text(text)
    sockets = {"pass_fds": [rest.fileno(), grpc.fileno(), console.fileno()]}
    command = ["haproxy", "-f", str(configuration)]
    subprocess.run([*command, "-c"], check=True, stdout=subprocess.DEVNULL, **sockets)
    Process(stack, folder, "haproxy", *command, "-db", **sockets)
    return rest.getsockname(), console.getsockname(), gateways, core, names


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

    # A forged address changes nothing: all these failures count for one address.
    left = [int(get(proxy, "/v1/pets", "junk", **{"X-Forwarded-For": f"192.0.2.{n}"})[1]["X-RateLimit-Remaining"]) for n in range(4)]
    assert left == [left[0], left[0] - 1, left[0] - 2, left[0] - 3], left

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
