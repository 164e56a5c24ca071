"""Checks that alerts and dashboard name metrics that exist, and that each alert has a panel with its metrics. Prints the
queries of the dashboard as rules for promtool."""

import json
import re
import sys
from pathlib import Path

import yaml

GUIDE = re.findall(r"^\| `(\w+)` \| (counter|gauge|histogram) \|", Path("docs/operations.md").read_text(), re.MULTILINE)
METRICS = {"up", "ALERTS"} | {name for name, kind in GUIDE if kind != "histogram"}
METRICS |= {f"{name}_{part}" for name, kind in GUIDE if kind == "histogram" for part in ("bucket", "count", "sum")}


def metrics_of(query: str) -> set[str]:
    """Returns the metrics that a query names. Fails if one does not exist."""
    bare = re.sub(r"\b(by|without|on) \([^)]*\)", "", query)
    # A word before a selector, a range or the end of an argument that is neither a function nor a number.
    bare = re.sub(r"\{[^}]*\}", "{", re.sub(r"\[[^]]*\]", "[", bare))
    names = set(re.findall(r"\b([a-zA-Z_][a-zA-Z_0-9]*)\b(?=\s*(?:[{\[)]|[<>=!/]|$))", bare))
    if not names or names - METRICS:
        sys.exit(f"{query} names {names - METRICS or 'no metric'}, which is none of the guide's")
    return names


groups = yaml.safe_load(Path("deploy/prometheus/alerts.yaml").read_text())["groups"]
alerts = {rule["alert"]: metrics_of(rule["expr"]) for group in groups for rule in group["rules"]}
dashboard = json.loads(Path("deploy/grafana/dashboard.json").read_text())
panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
assert len(METRICS) > 20 and len(alerts) == 20 and len(panels) > 20, (METRICS, alerts, len(panels))

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
    if [shown_metrics >= metrics for shown_metrics in shown[alert]] != [True]:
        sys.exit(f"{alert}: it has no panel with {sorted(metrics)}, or several")
variables = [variable["name"] for variable in dashboard["templating"]["list"]]
assert variables == ["datasource", "job", "instance"], variables
assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"]), "an id stands twice"

rules = [{"record": f"dashboard:query{n}", "expr": query.replace("$__rate_interval", "5m")} for n, query in enumerate(queries)]
print(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
