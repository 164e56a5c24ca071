"""Checks deploy/ against the schema of Compose, the settings of the binary, and the project's rules.

Arguments: the binary, and the manifests of Kubernetes as `kubectl kustomize` renders them.
"""

import ipaddress
import json
import re
import subprocess
import sys
from pathlib import Path

import yaml
from compose_spec import PyCompose

BINARY, RENDERED = sys.argv[1:]
DEPLOY = Path("deploy")
ROLES = {"serve", "core", "gateway", "migrate up"}
DRAIN_DEADLINE = 20  # seconds: the default of PETSTORE_DRAIN_DEADLINE

failures: list[str] = []


def expect(condition: object, complaint: str) -> None:
    if not condition:
        failures.append(complaint)


def settings(role: str) -> set[str]:
    """Returns the variables that a command takes, from its help."""
    text = subprocess.run([BINARY, *role.split(), "--help"], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"\[env: (PETSTORE_\w+)", text))


def check_process(where: str, role: str, variables: dict[str, str], grace: float, mounts: tuple[str, ...] = ()) -> None:
    """Checks the rules for every petstore process. `grace` is the number of seconds between SIGTERM and SIGKILL."""
    if role not in ROLES:
        expect(False, f"{where}: {role!r} is not a command, or has flags: settings are variables here")
        return
    for name in variables.keys() - settings(role):
        expect(False, f"{where}: {role} has no setting {name}")
    expect("PETSTORE_INSECURE_ALLOW_REMOTE" not in variables, f"{where}: any client may call the core")
    for name, path in variables.items():
        is_file = re.search(r"_(FILE|CERT|KEY|CA)$", name)
        expect(not is_file or path.startswith(mounts), f"{where}: {name} is in no volume")
    delay = re.fullmatch(r"(\d+)s", variables.get("PETSTORE_DRAIN_DELAY", "0s"))
    expect(delay, f"{where}: the drain delay is not in seconds")
    if delay and role != "migrate up":
        expect(grace > int(delay[1]) + DRAIN_DEADLINE, f"{where}: it would be killed while it drains")


def check_compose() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    file = yaml.safe_load(text)  # which also merges the `<<`
    PyCompose.from_json(json.dumps(file)).validate()
    services = file["services"]
    ours = {name: service for name, service in services.items() if service["image"].startswith("petstore:")}
    expect(len(ours) == 5, f"compose: {sorted(ours)} run the petstore image")
    for name, service in ours.items():
        grace = int(service["stop_grace_period"].rstrip("s"))
        mounts = tuple(volume.split(":")[1] + "/" for volume in service.get("volumes", []))
        check_process(f"compose, {name}", " ".join(service["command"]), service["environment"], grace, mounts)
        expect(service["read_only"] and service["cap_drop"] == ["ALL"], f"compose, {name}: it has too many rights")
        expect("ports" not in service, f"compose, {name}: it is reachable past the proxy")
    gateways = [service for service in ours.values() if service["command"] == ["gateway"]]
    proxy = {network["ipv4_address"] for network in services["proxy"]["networks"].values()}
    for gateway in gateways:
        expect(gateway["environment"]["PETSTORE_GATEWAYS"] == str(len(gateways)), "compose: the number of gateways")
        expect(set(gateway["environment"]["PETSTORE_TRUSTED_PROXY"].split(",")) == proxy, "compose: the trusted proxy is another address")
    published = [port for service in services.values() for port in service.get("ports", [])]
    expect(all(port.startswith("127.0.0.1:") for port in published), f"compose: {published} are open to the network")
    urls = {name: service["environment"].get("PETSTORE_DATABASE_URL", "") for name, service in ours.items()}
    owners = {name for name, url in urls.items() if "//petstore_owner:${OWNER_PASSWORD:?}@" in url}
    servants = {name for name, url in urls.items() if "//petstore:${SERVICE_PASSWORD:?}@" in url}
    expect(owners == {"migrate"} and servants == {"core-1", "core-2"}, "compose: the wrong role of the database")
    servers = re.findall(r"^  server (\S+) (\S+):", (DEPLOY / "compose/haproxy.cfg").read_text(), re.MULTILINE)
    expect({host for _, host in servers} == ours.keys() - {"migrate"}, "haproxy.cfg: its servers are not the services")


def manifests() -> list[dict]:
    return list(yaml.safe_load_all(Path(RENDERED).read_text()))


def check_kubernetes() -> None:
    objects = {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in manifests()}
    expect({path.name for path in (DEPLOY / "kubernetes").glob("*.yaml")} - {"kustomization.yaml"} == set(
        yaml.safe_load((DEPLOY / "kubernetes/kustomization.yaml").read_text())["resources"]), "kustomization.yaml: it lists other files")
    expect(not any(kind == "Secret" for kind, _ in objects), "kubernetes: a secret is in a file")
    pods = {name: item["spec"]["template"] for (kind, name), item in objects.items() if kind in ("Deployment", "Job")}
    expect(len(pods) == 3, f"kubernetes: {sorted(pods)} run the petstore image")
    for name, pod in pods.items():
        where, (container,) = f"kubernetes, {name}", pod["spec"]["containers"]
        variables = {}
        for source in container.get("envFrom", []):
            variables |= objects["ConfigMap", source["configMapRef"]["name"]]["data"]
        for variable in container["env"]:
            expect("secretKeyRef" in variable["valueFrom"], f"{where}: {variable['name']} is not a reference")
            variables[variable["name"]] = ""
        grace = pod["spec"].get("terminationGracePeriodSeconds", 30)
        mounts = tuple(mount["mountPath"] + "/" for mount in container.get("volumeMounts", []))
        check_process(where, " ".join(container["args"]), variables, grace, mounts)
        expect(pod["spec"]["enableServiceLinks"] is False, f"{where}: Kubernetes would add variables PETSTORE_…")
        expect(pod["spec"]["securityContext"]["runAsNonRoot"], f"{where}: it may run as root")
        expect(container["securityContext"]["readOnlyRootFilesystem"], f"{where}: its file system is writable")
        check_selected(objects, pod["metadata"]["labels"], container, where)
    check_policies(objects)
    scaler = objects["HorizontalPodAutoscaler", "petstore-gateway"]["spec"]
    settings = objects["ConfigMap", "petstore-gateway"]["data"]
    gateways, trusted = settings["PETSTORE_GATEWAYS"], ipaddress.ip_network(settings["PETSTORE_TRUSTED_PROXY"])
    expect(trusted.prefixlen >= 24, "kubernetes: the trusted block is that of many pods, not of the ingress controller alone")
    surge = objects["Deployment", "petstore-gateway"]["spec"]["strategy"]["rollingUpdate"]["maxSurge"]
    at_once = str(scaler["maxReplicas"] + surge)
    expect(gateways == at_once, f"kubernetes: PETSTORE_GATEWAYS is not {at_once}, the most gateways at once")
    expect("replicas" not in objects["Deployment", "petstore-gateway"]["spec"], "kubernetes: replicas undo the autoscaler")


def check_policies(objects: dict) -> None:
    """Checks that the network policies allow these connections and no others: a component, its peer, and a port."""
    dns = "kube-system/kube-dns"
    expected = {
        ("gateway", "from", "ingress-nginx", "http"), ("gateway", "from", "monitoring", "admin"),
        ("gateway", "to", "core", 50051), ("gateway", "to", "anywhere", 6379),
        ("core", "from", "gateway", "grpc"), ("core", "from", "monitoring", "admin"), ("core", "to", "anywhere", 5432),
        ("migrate", "to", "anywhere", 5432),
        ("every pod", "to", dns, 53),
    }  # fmt: skip

    def name(peer: dict) -> str:
        space = peer.get("namespaceSelector", {}).get("matchLabels", {}).get("kubernetes.io/metadata.name")
        labels = peer.get("podSelector", {}).get("matchLabels", {})
        pods = labels.get("app.kubernetes.io/component") or labels.get("k8s-app")
        return "/".join(part for part in (space, pods) if part)

    allowed = set()
    for (kind, _), policy in objects.items():
        if kind != "NetworkPolicy":
            continue
        spec = policy["spec"]
        component = spec["podSelector"].get("matchLabels", {}).get("app.kubernetes.io/component", "every pod")
        for direction, rules, peers in (("from", "ingress", "from"), ("to", "egress", "to")):
            for rule in spec.get(rules, []):
                for peer in [name(peer) for peer in rule.get(peers, [])] or ["anywhere"]:
                    allowed |= {(component, direction, peer, port["port"]) for port in rule["ports"]}
    expect(allowed == expected, f"network policies: {allowed ^ expected} is allowed or missing")
    nothing = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    expect(objects["NetworkPolicy", "petstore-nothing"]["spec"] == nothing, "network policies: something is allowed by default")
    core, gateway = (objects["ConfigMap", f"petstore-{component}"]["data"] for component in ("core", "gateway"))
    expect(core["PETSTORE_GRPC_ADDR"].endswith(":50051"), "network policies: the core listens elsewhere")
    expect(gateway["PETSTORE_CORE_URL"] == "https://petstore-core:50051", "network policies: the gateway calls another port")


def check_selected(objects: dict, labels: dict[str, str], container: dict, where: str) -> None:
    """Checks that every pod has a network policy, and that each service, budget or policy selects the pod that it is for."""
    ports = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
    probes = [container[probe]["httpGet"] for probe in container if probe.endswith("Probe")]
    expect(not ports or {probe["path"] for probe in probes} == {"/livez", "/readyz"}, f"{where}: it lacks a probe")
    expect(all(probe["port"] in ports for probe in probes), f"{where}: a probe's port does not exist")
    component = labels["app.kubernetes.io/component"]
    means = {"NetworkPolicy"} | ({"Service", "PodDisruptionBudget"} if ports else set())
    for kind in means:
        spec = objects[kind, f"petstore-{component}"]["spec"]
        selector = spec.get("podSelector") or spec["selector"]
        expect(selector.get("matchLabels", selector) == labels, f"{where}: its {kind} does not select it")
        named = [port.get("targetPort", port.get("port")) for port in spec.get("ports", [])]
        named += [port["port"] for rule in spec.get("ingress", []) for port in rule["ports"]]
        expect(all(port in ports for port in named), f"{where}: its {kind} names a port that it does not have")


def check_monitoring() -> None:
    """Checks that every pod with an admin port is scraped, and that every alert links to its section of the guide."""
    (monitor,) = yaml.safe_load_all((DEPLOY / "kubernetes/monitoring/pod-monitor.yaml").read_text())
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    label = monitor["spec"]["selector"]["matchLabels"].items()
    for item in manifests():
        if item["kind"] == "Deployment":
            pod = item["spec"]["template"]
            ports = [port["name"] for port in pod["spec"]["containers"][0]["ports"]]
            expect(label <= pod["metadata"]["labels"].items(), f"pod-monitor.yaml: it does not select {item['metadata']['name']}")
            expect(endpoint["port"] in ports, f"pod-monitor.yaml: {item['metadata']['name']} has no port {endpoint['port']}")
    job = {"action": "replace", "targetLabel": "job", "replacement": "petstore"}
    role = {"action": "replace", "targetLabel": "role", "sourceLabels": ["__meta_kubernetes_pod_label_app_kubernetes_io_component"]}
    expect(endpoint["relabelings"] == [job, role], "pod-monitor.yaml: the labels that the alerts use")
    components = {item["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"] for item in manifests() if item["kind"] == "Deployment"}
    (job,) = yaml.safe_load((DEPLOY / "prometheus/prometheus.yaml").read_text())["scrape_configs"]
    expect({group["labels"]["role"] for group in job["static_configs"]} == components, "prometheus.yaml: the roles are not those of Kubernetes")
    sections = re.findall(r"^## (\w+)$", Path("docs/troubleshooting.md").read_text(), re.MULTILINE)
    rules = yaml.safe_load((DEPLOY / "prometheus/alerts.yaml").read_text())["groups"][0]["rules"]
    expect([rule["alert"] for rule in rules if rule["alert"] not in sections] == [], "alerts.yaml: an alert without a section")
    for rule in rules:
        leads_to = f"docs/troubleshooting.md#{rule['alert'].lower()}"
        expect(rule["annotations"]["runbook_url"] == leads_to, f"alerts.yaml: {rule['alert']} has another link")


def check_units() -> None:
    confinements = set()
    for path in sorted((DEPLOY / "systemd").glob("*.service")):
        unit = path.read_text()
        (role,) = re.findall(r"^ExecStart=/usr/local/bin/petstore (.*)$", unit, re.MULTILINE)
        variables = dict(re.findall(r"^Environment=(\w+)=(.*)$", unit, re.MULTILINE))
        (grace,) = re.findall(r"^TimeoutStopSec=(\d+)s$", unit, re.MULTILINE)
        check_process(path.name, role, variables, int(grace))
        confinements.add(unit[unit.index("Restart=") :])
    expect(len(confinements) == 1, "systemd: the units are not confined and restarted in the same way")


def check_proxies() -> None:
    """The two configurations of HAProxy differ only in addresses, names and the global section."""
    texts = [(DEPLOY / folder / "haproxy.cfg").read_text() for folder in ("compose", "haproxy")]
    rules = [text[text.index("defaults\n") :] for text in texts]
    rules = [text.replace(" resolvers containers resolve-prefer ipv4 init-addr libc,none", "") for text in rules]
    rules = [re.sub(r"^(  server \S+) [^:]+:|^(  bind) [^:]*:", r"\1\2 :", text, flags=re.MULTILINE) for text in rules]
    expect(rules[0] == rules[1], "haproxy/haproxy.cfg: it differs from that of compose in more than addresses")


def check_image() -> None:
    variables = dict(re.findall(r"(PETSTORE_\w+)=(\S+)", (DEPLOY / "Dockerfile").read_text()))
    expect(variables, "Dockerfile: no settings were found")
    check_process("Dockerfile", "gateway", variables, grace=60)  # the role with the fewest settings that has them all


check_compose()
check_kubernetes()
check_monitoring()
check_units()
check_proxies()
check_image()
for failure in failures:
    print(f"  {failure}", file=sys.stderr)
sys.exit(1 if failures else 0)
