"""Processes of a test of deploy/: each in a folder, on ports of the system's choice, stopped with a stack."""

import http.client
import os
import re
import signal
import socket
import subprocess
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import yaml

ANY = "127.0.0.1:0"
PATIENCE = 20  # seconds until something that has to happen has happened


def wait_for(what: str, condition, patience: float = PATIENCE):
    deadline = time.monotonic() + patience
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise SystemExit(f"error: {what}: not within {patience} s")
        time.sleep(0.05)
    return result


class Process:
    """A process in a folder, which is stopped with the stack."""

    def __init__(self, stack: ExitStack, folder: Path, name: str, *command: str, **options):
        self.log = folder / f"{name}.log"
        self.start = lambda: self._start(folder, command, options)
        self.start()
        stack.callback(self.stop)

    def _start(self, folder: Path, command: tuple[str, ...], options: dict) -> None:
        """Starts the process, or starts it again."""
        with self.log.open("w") as log:
            self.child = subprocess.Popen(command, **{"cwd": folder, "stdout": log, "stderr": log} | options)

    def stop(self) -> int:
        self.child.send_signal(signal.SIGCONT)  # it may be frozen
        self.child.terminate()
        return self.child.wait(PATIENCE)

    def kill(self) -> None:
        self.child.kill()
        self.child.wait(PATIENCE)

    def announced(self, name: str) -> tuple[str, int]:
        """Returns the host and port that `petstore` prints for a service."""
        pattern = re.compile(rf"^{name} +(?:https?://)?([\d.]+):(\d+)", re.MULTILINE)

        def found():
            if self.child.poll() is not None:
                raise SystemExit(f"error: it has ended:\n{self.log.read_text()}")
            return pattern.search(self.log.read_text())

        match = wait_for(f"{self.log.name} announces {name}", found)
        return match[1], int(match[2])


class Names:
    """A name server. Once names are known, it resolves all of them to 127.0.0.1."""

    def __init__(self, stack: ExitStack, is_known: bool = False):
        self.is_known = is_known
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


class Proxy:
    """HAProxy with the file of deploy/compose. Its ports exist before the servers behind it."""

    def __init__(self, stack: ExitStack, folder: Path):
        self.stack, self.folder = stack, folder
        self.sockets = {port: stack.enter_context(socket.create_server(("127.0.0.1", 0))) for port in (8080, 50051, 9090)}

    def address(self, port: int) -> tuple[str, int]:
        """Returns the address that stands for a port of the file."""
        return self.sockets[port].getsockname()

    def start(self, servers: dict[str, tuple[int, int]], names: Names) -> None:
        """Starts it in front of servers, each with its port and its admin port."""
        text = Path("deploy/compose/haproxy.cfg").read_text()
        for port, taken in self.sockets.items():
            text = text.replace(f"bind :{port}", f"bind fd@{taken.fileno()}")
        for name, (port, admin) in servers.items():
            for expected, actual in ((8080, port), (50051, port), (9090, admin)):
                text = text.replace(f"server {name} {name}:{expected}", f"server {name} {name}:{actual} port {admin}")
        text, count = re.subn("parse-resolv-conf", f"nameserver dns 127.0.0.1:{names.port}", text)
        assert count == 1, "the name server"
        configuration = self.folder / "haproxy.cfg"
        configuration.write_text(text)
        sockets = {"pass_fds": [taken.fileno() for taken in self.sockets.values()]}
        command = ["haproxy", "-f", str(configuration)]
        subprocess.run([*command, "-c", "-q"], check=True, **sockets)
        Process(self.stack, self.folder, "haproxy", *command, "-db", **sockets)


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


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        return reserved.getsockname()[1]


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
