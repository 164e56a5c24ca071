"""Load on a service, from this machine: closed loop (wrk), open loop (testing/open-loop), and idle connections."""

import collections, http.client, json, os, resource, shutil, ssl, subprocess, sys, time

from . import data

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "..", "operation.lua")
ROOT = os.path.join(HERE, "..", "..", "..")

OPERATIONS = {
    "get": "one pet, by its identifier",
    "list": "one page of 20, always the same",
    "lists": "pages of 15 to 25 of three statuses, 33 different ones",
    "deep": "the page of 20 nine tenths down the list",
    "create": "one pet added",
}

BODY = '{"name":"Rex","categoryId":7,"status":"available"}'


def connection(service, number=0):
    """Opens a connection to the first gateway, from one of many addresses of this machine."""
    url = service.urls[0]
    source = (f"127.0.{1 + number // 200 % 200}.{1 + number % 200}", 0)
    host = url.split("://")[1]
    if url.startswith("https"):
        trusting = ssl._create_unverified_context()  # it made the certificate itself
        return http.client.HTTPSConnection(host, source_address=source, context=trusting)
    return http.client.HTTPConnection(host, source_address=source)


def first_key(service):
    with open(service.keys) as keys:
        return keys.readline().strip()


def ask(service, link, path):
    link.request("GET", path, headers={"Authorization": f"Bearer {first_key(service)}"})
    answer = link.getresponse()
    answer.read()
    if answer.status != 200:
        sys.exit(f"{path}: status {answer.status}")
    return answer


def deep_cursor(service):
    """Returns the cursor of a page nine tenths down the list."""
    return data.page_token(max(service.pets * 9 // 10, 1))


def begin_closed(service, operation, connections, seconds, keys):
    """Starts a closed loop over all gateways: the next request follows the answer. Returns the running programs."""
    if not shutil.which("wrk"):
        sys.exit("wrk is needed: install the Debian package wrk")
    environment = {**os.environ, "BENCH_OPERATION": operation, "BENCH_PETS": str(service.pets),
                   "BENCH_KEYS": keys, "BENCH_CURSOR": deep_cursor(service)}
    each = max(connections // len(service.urls), 1)
    words = ["wrk", f"-t{min(2, each)}", f"-c{each}", f"-d{seconds}s", "--timeout", "15s", "-s", SCRIPT]
    return [subprocess.Popen([*words, url], env=environment, stdout=subprocess.PIPE, text=True) for url in service.urls]


def closed(service, operation, connections, seconds):
    """Runs a closed loop of all accounts."""
    return end_closed(service, operation, begin_closed(service, operation, connections, seconds, service.keys))


def end_closed(service, operation, runs):
    """Waits for the end of a closed loop. Returns its figures."""
    answers, refused, bad, micros, latencies = 0, 0, 0, 0, collections.Counter()
    for run in runs:
        out = run.communicate()[0]
        line = next((line for line in out.splitlines() if line.startswith("RESULT ")), None)
        if line is None:
            sys.exit(f"wrk: {out}")
        these, with_503, failed, duration, *histogram = map(int, line.split()[1:])
        answers, refused, bad, micros = answers + these, refused + with_503, bad + failed, max(micros, duration)
        for latency, times in zip(histogram[::2], histogram[1::2]):
            latencies[latency] += times
    stop_at_failures(service, operation, bad, answers - refused)
    return figures(answers, refused, micros, lambda part: quantile(latencies, part))


def quantile(counts, part):
    """Returns a quantile of values, given the count of each."""
    left = part * sum(counts.values())
    for value in sorted(counts):
        left -= counts[value]
        if left <= 0:
            return value
    return 0


def stop_at_failures(service, operation, failed, answers):
    if failed or not answers:
        sys.exit(f"{service.variant}, {service.deployment}, {operation}: {failed} requests failed, {answers} did not")


def figures(answers, refused, micros, micros_at):
    """Returns the figures. Requests are those answered 2xx, latencies those of all answers. An overloaded service refuses some."""
    milliseconds = {name: micros_at(part) / 1e3 for name, part in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)]}
    requests = answers - refused
    return {"requests": requests, "refused": refused / answers, "rps": requests / micros * 1e6, **milliseconds}


def open_loop_program():
    """Builds the open-loop generator, which has no dependencies. Returns its path."""
    subprocess.run(["cargo", "build", "--release", "--locked", "--offline", "--quiet", "--package", "petstore-open-loop"],
                   cwd=ROOT, check=True)
    return os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release", "petstore-open-loop")


def open_loop(service, operation, rate, connections, seconds):
    """Runs an open loop: a fixed rate of requests, each measured from the time it was due."""
    if service.https:
        sys.exit("the open loop speaks plain HTTP only")
    fields = f"Host: petstore\r\nAuthorization: Bearer {first_key(service)}\r\n"
    get = lambda path: f"GET {path} HTTP/1.1\r\n{fields}\r\n"
    if operation == "get":
        step = max(service.pets // 1000, 1)
        requests = [get(f"/v1/pets/{pet}") for pet in range(1, service.pets + 1, step)]
    elif operation == "lists":
        statuses = ("available", "pending", "sold")
        requests = [get(f"/v1/pets?limit={limit}&status={status}") for limit in range(15, 26) for status in statuses]
    elif operation == "create":
        requests = [f"POST /v1/pets HTTP/1.1\r\n{fields}Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n{BODY}"]
    elif operation == "deep":
        requests = [get(f"/v1/pets?limit=20&cursor={deep_cursor(service)}")]
    else:
        requests = [get("/v1/pets?limit=20&status=available")]
    addresses = ",".join(url.split("://")[1] for url in service.urls)
    out = subprocess.run([service.open_loop, addresses, str(rate), str(seconds), str(connections)],
                         input="\0".join(requests), stdout=subprocess.PIPE, text=True, check=True).stdout
    told = json.loads(out)
    stop_at_failures(service, operation, told["failed"], told["requests"])
    micros_at = {0.5: "p50_us", 0.9: "p90_us", 0.99: "p99_us", 0.999: "p999_us"}
    return figures(told["requests"], 0, told["us"], lambda part: told[micros_at[part]])


def beside(service, operation, rate, connections, neighbours, seconds):
    """Runs an open loop of the first account, while the second keeps so many connections busy with the same operation."""
    keys = data.key_file(service.folder, 2)
    neighbour = begin_closed(service, operation, neighbours, seconds + 2, keys)
    time.sleep(1)
    calm = open_loop(service, operation, rate, connections, seconds)
    noisy = end_closed(service, operation, neighbour)
    return {**calm, "requests_of_all": calm["requests"] + noisy["requests"]}


def idle(service, connections):
    """Opens connections, sends one request over each and leaves them idle. Returns the KiB of memory for each, by process."""
    wanted = connections + 100
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
    ask(service, connection(service), "/v1/pets/1")
    before, links = service.memory("VmRSS"), []
    for number in range(connections):
        links.append(connection(service, number))
        ask(service, links[-1], "/v1/pets/1")
    time.sleep(1)
    after = service.memory("VmRSS")
    for link in links:
        link.close()
    return {name: (after[name] - before[name]) * 1024 / connections for name in before}
