"""Makes each fault of the table real under load, and compares who is notified about it with the table.

Arguments: BINARY [--write] [--jobs N] [NAME...]. A name selects the faults that contain it. --write replaces the table of
deploy/prometheus/README.md; otherwise it is compared.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from faults import FAULTS, Fault
from installation import Caller, Load, Template
from monitoring import FACTOR, Monitoring, alerts

PAGE = Path("deploy/prometheus/README.md")
SLACK = 6  # seconds that the service and a busy machine may take in addition; they pass at the usual speed
SETTLED = 20  # seconds after which no further page can come: the longest `for` of a page is two minutes
BEFORE = 120  # requests a second before the fault: as many as in an hour
CONNECTIONS = 4  # that send them: one alone waits for each answer, and sends fewer on a busy machine
MEANWHILE = 1  # request a second under the fault: what fails until the proxy notices, at the usual speed, is no large share
NOTICED = 5  # seconds until the shipped proxy sends no more requests to a process that fails
TOLERATED = 0.02  # share of requests that may fail later, under a fault that raises no page
HEALED = 90  # seconds until the alerts of a healed fault have ended


@dataclass
class Outcome:
    fault: Fault
    seconds: float = 0
    failed: float = 0
    wrong: list[str] = field(default_factory=list)
    seen: set[tuple[str, str]] = field(default_factory=set)  # metrics with the labels that alerts select by


def selected_labels() -> set[tuple[str, str]]:
    """Returns every metric of the alerts, with each value of a label by which they select. Error codes are left out:
    metrics.py compares them with the code. So are ALERTS, which are Prometheus's."""
    found = set()
    for rule in alerts():
        for metric, matchers in re.findall(r"(\w+)\{([^}]*)\}", rule["expr"]):
            for label, is_regex, values in re.findall(r'(\w+)=(~?)"([^"]*)"', matchers):
                if label != "code" and metric != "ALERTS":
                    found |= {(metric, f'{label}={is_regex}"{value}"') for value in (values.split("|") if is_regex else [values])}
    return found


def run(fault: Fault, template: Template, stack: ExitStack) -> Outcome:
    outcome = Outcome(fault)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="petstore-alerts-")))
    installation = fault.kind(stack, folder, template)
    targets = {name: address for name, address in installation.targets.items() if name.startswith(fault.scraped)}
    monitoring = Monitoring(stack, folder, targets)
    loads = [Load(Caller(installation.rest, installation.keys["busy"]), BEFORE / CONNECTIONS) for _ in range(CONNECTIONS)]
    load, *others = loads
    stack.callback(load.end)
    time.sleep(8)  # five scrapes
    for other in others:
        other.end()
    load.interval = 1 / MEANWHILE
    if monitoring.firing() or monitoring.pager.notified:
        outcome.wrong.append(f"before the fault, {monitoring.firing()} is firing")

    expected = {("page", alert) for alert in {fault.page} - {""}} | {("ticket", alert) for alert in fault.tickets}
    began = time.monotonic()
    fault.make(installation)
    within = fault.within / FACTOR + SLACK
    while not expected <= monitoring.pager.notified.keys() and time.monotonic() < began + within:
        time.sleep(0.1)
    time.sleep(max(0, began + SETTLED - time.monotonic()))
    notified = dict(monitoring.pager.notified)
    outcome.failed = load.failed(began + NOTICED)
    if notified.keys() != expected:
        missing, others = expected - notified.keys(), notified.keys() - expected
        active = sorted((alert["labels"]["alertname"], alert["state"], alert["value"]) for alert in monitoring.ask("alerts")["alerts"])
        outcome.wrong.append(f"missing: {sorted(missing)}, unexpected: {sorted(others)}, alerts: {active}")
    outcome.seconds = max((at - began for at in notified.values()), default=0)
    if outcome.seconds > within:
        outcome.wrong.append(f"the last notification came after {outcome.seconds:.0f} s")
    if not fault.page and outcome.failed > TOLERATED:
        outcome.wrong.append(f"{outcome.failed:.1%} of the requests failed, without a page")
    for name, (part, cause) in fault.says.items():
        said = installation.readyz(name)
        if said.get("causes", {}).get(part, {}).get("cause") != cause:
            outcome.wrong.append(f"/readyz of {name} says {said} instead of {cause}")
    for metric, matcher in selected_labels():
        if monitoring.ask("series", **{"match[]": f"{metric}{{{matcher}}}"}):
            outcome.seen.add((metric, matcher))

    if fault.heal:
        fault.heal(installation)
    names = {alert for _, alert in expected}
    healed = time.monotonic()
    while fault.heal and monitoring.firing() & names:
        if time.monotonic() > healed + HEALED:
            outcome.wrong.append(f"{monitoring.firing() & names} is firing after the fault")
            break
        time.sleep(0.2)
    time.sleep(max(0, healed + fault.afterwards / FACTOR - time.monotonic()))
    if again := monitoring.pager.notified.keys() - notified.keys():
        outcome.wrong.append(f"notified after the fault: {sorted(again)}")
    return outcome


def tried(fault: Fault, template: Template) -> Outcome:
    try:
        with ExitStack() as stack:
            outcome = run(fault, template, stack)
    except (Exception, SystemExit) as error:  # one broken row must not hide the others
        traceback.print_exc()
        outcome = Outcome(fault, wrong=[f"it could not be tried: {error}"])
    print(f"  {fault.name} ({fault.how}): {outcome.seconds:.0f} s, {outcome.failed:.0%} of the requests failed", flush=True)
    for wrong in outcome.wrong:
        print(f"    WRONG: {wrong}", flush=True)
    return outcome


def table() -> str:
    def link(alert: str) -> str:
        return f"[{alert}](../../docs/troubleshooting.md#{alert.lower()})"

    lines = ["| Fault | Page | Tickets | Within |", "|---|---|---|---|"]
    for fault in FAULTS:
        tickets = ", ".join(link(ticket) for ticket in sorted(fault.tickets))
        page = link(fault.page) if fault.page else ""
        lines.append(f"| {fault.name} | {page} | {tickets} | {fault.within // 60} min |")
    return "\n".join(lines)


def check_page(is_written: bool) -> bool:
    """Compares the table of the page, or writes it. Returns `False` if they differ."""
    text = PAGE.read_text()
    block = f"<!-- alerts:begin -->\n{table()}\n<!-- alerts:end -->"
    new, count = re.subn(r"<!-- alerts:begin -->.*<!-- alerts:end -->", lambda _: block, text, flags=re.DOTALL)
    assert count == 1, f"{PAGE} has no place for the table"
    if is_written:
        PAGE.write_text(new)
    return new == text or is_written


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--jobs", type=int, default=4)
    arguments = parser.parse_intermixed_args()
    complaints = []
    if not check_page(arguments.write):
        complaints.append(f"the table in {PAGE} is not that of faults.py: run it with --write")
    chosen = [fault for fault in FAULTS if not arguments.names or any(name.lower() in fault.name.lower() for name in arguments.names)]
    with tempfile.TemporaryDirectory(prefix="petstore-alerts-") as folder, ThreadPoolExecutor(arguments.jobs) as pool:
        template = Template(Path(folder), arguments.binary)
        longest_first = sorted(chosen, key=lambda fault: -fault.within)
        outcomes = list(pool.map(lambda fault: tried(fault, template), longest_first))
        # With several installations on a busy machine, processes miss deadlines of their own, such as 60 ms for Redis.
        # Each fault that went wrong is tried again by itself, at most twice.
        for _ in range(2):
            outcomes = [tried(outcome.fault, template) if outcome.wrong else outcome for outcome in outcomes]
    complaints += [f"{outcome.fault.name}: {wrong}" for outcome in outcomes for wrong in outcome.wrong]
    if len(chosen) == len(FAULTS):
        unseen = selected_labels() - set().union(*(outcome.seen for outcome in outcomes))
        complaints += [f"alerts.yaml selects {metric}{{{matcher}}}, which no process has served" for metric, matcher in sorted(unseen)]
    for complaint in complaints:
        print(f"error: {complaint}", file=sys.stderr)
    sys.exit(1 if complaints else 0)


main()
