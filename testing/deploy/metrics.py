"""Checks that alerts, their tests and the dashboard name metrics, labels and values that exist, that each alert has a panel
with its metrics, and that each is raised: by a fault of faults.py or in alerts.test.yaml. Prints the queries of the dashboard
as rules for promtool."""

import json
import re
import subprocess
import sys
from pathlib import Path

import yaml

from faults import FAULTS

GUIDE = re.findall(r"^\| `(\w+)` \| (counter|gauge|histogram) \| ([^|]*) \|", Path("deploy/prometheus/README.md").read_text(), re.MULTILINE)
LABELS = {"up": set(), "ALERTS": {"alertname", "alertstate", "kind"}}  # by metric; these two are Prometheus's
for name, kind, labels in GUIDE:
    names = [f"{name}_{part}" for part in ("bucket", "count", "sum")] if kind == "histogram" else [name]
    LABELS |= dict.fromkeys(names, set(re.findall(r"`(\w+)`", labels)))
METRICS = set(LABELS)
ADDED = {"job", "instance", "role", "le"}  # by the scrape configuration, or to every histogram
NUMBERS = {"http_response_status_code"}
SOURCES = "".join(Path(file).read_text() for file in subprocess.run(
    ["git", "ls-files", "*.rs", "*.proto"], check=True, capture_output=True, text=True).stdout.split())  # fmt: skip


def check_labels(series: str) -> None:
    """Fails if a metric of the service has a label or a value that the service does not give it."""
    for metric, matchers in re.findall(r"(\w+)\{([^}]*)\}", series):
        for label, values in re.findall(r'(\w+)(?:=|!=|=~|!~)"([^"]*)"', matchers):
            if label not in LABELS.get(metric, set()) | ADDED:
                sys.exit(f"{series}: {metric} has no label {label}")
            for value in values.split("|") if label not in ADDED | NUMBERS and metric != "ALERTS" else []:
                if not re.search(rf'"{value}"|\b[A-Z_]*{value}\b' if value.isupper() else f'"{value}"', SOURCES):
                    sys.exit(f"{series}: no {label} is {value}")


def metrics_of(query: str) -> set[str]:
    """Returns the metrics that a query names. Fails if one does not exist."""
    bare = re.sub(r"\b(by|without|on|ignoring) \([^)]*\)", "", query)
    # A word before a selector, a range or the end of an argument that is neither a function nor a number.
    bare = re.sub(r"\{[^}]*\}", "{", re.sub(r"\[[^]]*\]", "[", bare))
    names = set(re.findall(r"\b([a-zA-Z_][a-zA-Z_0-9]*)\b(?=\s*(?:[{\[)]|[<>=!/]|$))", bare))
    if not names or names - METRICS:
        sys.exit(f"{query} names {names - METRICS or 'no metric'}, which is none of the guide's")
    check_labels(query)
    return names


groups = yaml.safe_load(Path("deploy/prometheus/alerts.yaml").read_text())["groups"]
alerts = {rule["alert"]: metrics_of(rule["expr"]) for group in groups for rule in group["rules"]}
dashboard = json.loads(Path("deploy/grafana/dashboard.json").read_text())
panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
assert len(METRICS) > 20 and len(alerts) > 20 and len(panels) > 20, (METRICS, alerts, len(panels))

tests = yaml.safe_load(Path("testing/deploy/alerts.test.yaml").read_text())["tests"]
raised = {alert for fault in FAULTS for alert in (fault.page, *fault.tickets) if alert}
for test in tests:
    for series in test["input_series"]:
        check_labels(series["series"])
    raised |= {case["alertname"] for case in test["alert_rule_test"] if case.get("exp_alerts")}
if raised != alerts.keys():
    sys.exit(f"{raised ^ alerts.keys()}: no test raises it, or no alert has the name")

shown: dict[str, list[set[str]]] = {alert: [] for alert in alerts}
queries = []
for panel in panels:
    metrics = set()
    for target in panel["targets"]:
        metrics |= metrics_of(target["expr"])
        queries.append(target["expr"])
        selectors = re.findall(r"(\w+)\{([^}]*)\}", target["expr"])
        if not all(name == "ALERTS" or 'job=~"$job", instance=~"$instance"' in labels for name, labels in selectors):
            sys.exit(f"{panel['title']}: a query ignores the variables of the dashboard")
    for alert in re.findall(r"\bPetstore\w+", panel.get("description", "")):
        shown[alert].append(metrics)
for alert, metrics in alerts.items():
    metrics = metrics - {"ALERTS"}  # an alert may consider other alerts
    if [shown_metrics >= metrics for shown_metrics in shown[alert]] != [True]:
        sys.exit(f"{alert}: it has no panel with {sorted(metrics)}, or several")
variables = [variable["name"] for variable in dashboard["templating"]["list"]]
assert variables == ["datasource", "job", "instance"], variables
assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"]), "an id stands twice"

rules = [{"record": f"dashboard:query{n}", "expr": query.replace("$__rate_interval", "5m")} for n, query in enumerate(queries)]
print(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
