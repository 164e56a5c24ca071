"""Sees to it that alerts and dashboard name metrics that exist, and prints the dashboard's queries as rules for promtool."""

import json
import re
import sys
from pathlib import Path

import yaml

table = re.findall(r"^\| `(\w+)` \| (counter|gauge|histogram) \|", Path("docs/operations.md").read_text(), re.MULTILINE)
metrics = {"up"} | {name for name, kind in table if kind != "histogram"}
metrics |= {f"{name}_{part}" for name, kind in table if kind == "histogram" for part in ("bucket", "count", "sum")}

panels = json.loads(Path("deploy/grafana/dashboard.json").read_text())["panels"]
queries = [target["expr"] for panel in panels for target in panel["targets"]]
groups = yaml.safe_load(Path("deploy/prometheus/alerts.yaml").read_text())["groups"]
alerts = [rule["expr"] for group in groups for rule in group["rules"]]
named = 0
for query in queries + alerts:
    bare = re.sub(r"\b(by|without) \([^)]*\)", "", query)
    # What stands before a selector, a range or the end of an argument, and is no function or number.
    names = re.findall(r"\b([a-z_][a-z_0-9]*)\b(?=\s*(?:[{\[)]|[<>=!/]|$))", re.sub(r"\{[^}]*\}", "{", re.sub(r"\[[^]]*\]", "[", bare)))
    unknown = set(names) - metrics
    if unknown or not names:
        sys.exit(f"{query} names {unknown or 'no metric'}, which is none of the guide's")
    named += len(names)
assert named > 20 and len(metrics) > 20, (named, metrics)

rules = [{"record": f"dashboard:query{n}", "expr": query.replace("$__rate_interval", "5m")} for n, query in enumerate(queries)]
print(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
