"""Prometheus and Alertmanager with the files of deploy/prometheus, in which time passes faster, and who is notified."""

import json
import re
import threading
import time
import urllib.parse
import urllib.request
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

from processes import Process, free_port, wait_for

FOLDER = Path("deploy/prometheus")
FACTOR = 10  # Every duration in the files is divided by this, scrape interval and windows alike.
# Debian's Alertmanager reads its templates from /usr/share: a folder that only this process sees. $0 is the unpacked package.
WITH_TEMPLATES = ["unshare", "--map-root-user", "--mount", "sh", "-euc", "mount -t tmpfs tmpfs /usr/share &&"
                  ' cp -r "$0"/usr/share/prometheus /usr/share/ && exec "$0"/usr/bin/prometheus-alertmanager "$@"']  # fmt: skip
MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def shortened(duration: str) -> str:
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h|d)", duration).groups()
    return f"{int(number) * MILLISECONDS[unit] // FACTOR}ms"


def read(name: str) -> dict:
    return yaml.safe_load((FOLDER / name).read_text())


def alerts() -> list[dict]:
    return [rule for group in read("alerts.yaml")["groups"] for rule in group["rules"]]


def shortened_alerts() -> str:
    """Returns the file of the alerts with shorter durations: `for` and the windows of queries, nothing else."""
    file = read("alerts.yaml")
    for rule in (rule for group in file["groups"] for rule in group["rules"]):
        if "for" in rule:
            rule["for"] = shortened(rule["for"])
        rule["expr"] = re.sub(r"(?<=\[)\d+[a-z]+(?=\])", lambda window: shortened(window[0]), rule["expr"])
    return yaml.safe_dump(file)


class Pager(ThreadingHTTPServer):
    """Receives the notifications of Alertmanager, at a path for each receiver."""

    def __init__(self, stack: ExitStack):
        super().__init__(("127.0.0.1", 0), Webhook)
        self.notified: dict[tuple[str, str], float] = {}  # the first time, by receiver and alert
        threading.Thread(target=self.serve_forever, args=(0.1,), daemon=True).start()
        stack.callback(self.server_close)
        stack.callback(self.shutdown)

    def alerts(self, receiver: str) -> set[str]:
        return {alert for path, alert in list(self.notified) if path == receiver}


class Webhook(BaseHTTPRequestHandler):
    def do_POST(self) -> None:  # noqa: N802, the name is http.server's
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        for alert in message["alerts"]:
            if alert["status"] == "firing":
                self.server.notified.setdefault((self.path.strip("/"), alert["labels"]["alertname"]), time.monotonic())
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_) -> None:
        pass


class Monitoring:
    """Scrapes the targets, of which each has a name in prometheus.yaml and an address."""

    def __init__(self, stack: ExitStack, folder: Path, targets: dict[str, str]):
        self.pager = Pager(stack)
        routes = read("alertmanager.yaml")
        for route in (routes["route"], *routes["route"].get("routes", [])):
            route |= {name: shortened(route[name]) for name in ("group_wait", "group_interval") if name in route}
        for receiver in routes["receivers"]:
            receiver["webhook_configs"] = [{"url": f"http://127.0.0.1:{self.pager.server_port}/{receiver['name']}"}]
        (folder / "alertmanager.yaml").write_text(yaml.safe_dump(routes))
        alertmanager = free_port()
        self.start(stack, folder, alertmanager, "alertmanager", *WITH_TEMPLATES, str(Path(".tools/alertmanager").resolve()),
                   "--config.file=alertmanager.yaml", "--storage.path=alertmanager", "--cluster.listen-address=")  # fmt: skip

        file = read("prometheus.yaml")
        file["global"] = {name: shortened(duration) for name, duration in file["global"].items()}
        (job,) = file["scrape_configs"]
        for group in job["static_configs"]:
            group["targets"] = [targets[target] for target in group["targets"] if target in targets]
        file["rule_files"] = ["alerts.yaml"]
        file["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{alertmanager}"]}]}]}
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(file))
        (folder / "alerts.yaml").write_text(shortened_alerts())
        self.address = f"http://127.0.0.1:{(port := free_port())}"
        self.start(stack, folder, port, "prometheus", str(Path(".tools/prometheus").resolve()), "--config.file=prometheus.yaml", "--storage.tsdb.path=prometheus")

    @staticmethod
    def start(stack: ExitStack, folder: Path, port: int, program: str, *command: str) -> None:
        process = Process(stack, folder, program, *command, f"--web.listen-address=127.0.0.1:{port}")

        def is_ready() -> bool:
            if process.child.poll() is not None:
                raise SystemExit(f"error: {program} has ended:\n{process.log.read_text()}")
            try:
                return urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5).status == 200
            except OSError:
                return False

        wait_for(f"{program} is ready", is_ready, 60)

    def ask(self, path: str, **parameters: str):
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.address}/api/v1/{path}?{query}", timeout=20) as answer:
            return json.load(answer)["data"]

    def value(self, query: str) -> float | None:
        """Returns the value of a query that has one result."""
        results = self.ask("query", query=query)["result"]
        return float(results[0]["value"][1]) if results else None

    def firing(self) -> set[str]:
        return {alert["labels"]["alertname"] for alert in self.ask("alerts")["alerts"] if alert["state"] == "firing"}
