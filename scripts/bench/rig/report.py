"""Reports of measurements, as Markdown tables, JSON and an SVG."""

import dataclasses, html, itertools, json, os, platform, shlex, statistics

from .load import OPERATIONS

# Colours that colour-blind people can distinguish, on a light and a dark background.
COLOURS = {"serve": "#e69f00", "gateway": "#0072b2", "gateway 2": "#56b4e9", "core": "#009e73", "core 2": "#5cc9a7", "redis": "#d55e00",
           "postgres": "#cc79a7", "p50": "#0072b2", "to p99": "#56b4e9"}

# Names of the options in words, for readers of tables and plots.
DEPLOYED = {"one": "one process", "one-postgres": "one process on PostgreSQL", "split": "gateway and core",
            "split-2": "two gateways, one core", "cores-2": "one gateway, two cores", "cores-4": "one gateway, four cores"}
SET = {"PETSTORE_PET_CACHE=0": "without the cache of pets"}
ASKED = {"get": "one pet", "list": "equal pages", "lists": "different pages", "deep": "page nine tenths down", "create": "new pet"}

STYLE = """
text { fill: #1f2328; } .faint { fill: #59636e; } .strong { font-weight: 600; }
.ground { fill: #ffffff; } .line { stroke: #d1d9e0; } .number { text-anchor: end; font-variant-numeric: tabular-nums; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; } .faint { fill: #9198a1; } .ground { fill: #0d1117; } .line { stroke: #3d444d; }
}
"""


def median_of(runs):
    """Returns the median of each figure over the runs of one case."""
    first = runs[0]
    median = {name: statistics.median(run[name] for run in runs) for name in first if name not in ("cpu",)}
    median["cpu"] = {name: statistics.median(run["cpu"][name] for run in runs) for name in first["cpu"]}
    return median


def machine(other_work):
    with open("/proc/cpuinfo") as info:
        model = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), platform.machine())
    return f"{os.cpu_count()} cores of {model}, Linux {platform.release()}; other work took {other_work:.0%} of them"


def counted(number, noun):
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def distinct_words(variants):
    """Returns for each variant the words that not all variants have."""
    words = {variant: shlex.split(variant) for variant in variants}
    common = set.intersection(*map(set, words.values()))
    own = {variant: [SET.get(word, word) for word in words[variant] if word not in common] for variant in variants}
    return {variant: " ".join(words) or "default settings" for variant, words in own.items()}


def settings_of(variant):
    """Returns the words of a variant without the binary."""
    words = shlex.split(variant)
    binary = next(word for word in words if "=" not in word)
    return [SET.get(word, word) for word in words if word != binary]


def total(case):
    return sum(case["median"]["cpu"].values())


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


@dataclasses.dataclass
class Measurement:
    command: str
    settings: str
    machine: str
    results: list
    memories: list

    def __post_init__(self):
        variants = distinct_words(dict.fromkeys(case["variant"] for case in self.results))
        dimensions = {
            "deployment": lambda case: DEPLOYED[case["deployment"]],
            "protocol": lambda case: "HTTPS" if case["https"] else "HTTP",
            "pets": lambda case: counted(case["pets"], "pet"),
            "accounts": lambda case: counted(case["accounts"], "account"),
            "load": lambda case: case.get("load"),
            "variant": lambda case: variants[case["variant"]],
        }
        differs = {name for name, text in dimensions.items() if len({text(case) for case in self.results}) > 1}
        self.varying = {name: text for name, text in dimensions.items() if name in differs}
        self.shared = [text(self.results[0]) for name, text in dimensions.items() if name not in differs and name != "variant"]
        if "variant" not in differs:
            self.shared += settings_of(self.results[0]["variant"])
        self.some_refused = any(case["median"]["refused"] for case in self.results)

    def heading(self):
        return f"{', '.join(self.shared)}; {self.settings}; {self.machine}"

    def markdown(self):
        parts = ["CPU: seconds of all processes per 100,000 requests that were answered 2xx, those of PostgreSQL and Redis among",
                 "them."]
        if self.some_refused:
            parts.append("503: refused as `OVERLOADED`, and asked again at once; latencies are those of all answers.")
        return (f"`{self.command}`\n\n{self.heading()}.\n{' '.join(parts)}\n\n{self.of_results()}\n{self.of_memories()}")

    def of_results(self):
        with_ratio = "variant" in self.varying
        head = ["operation", *self.varying, *(["ratio of CPU"] if with_ratio else []), "requests/s",
                *(["503"] if self.some_refused else []), "p50 ms", "p99 ms", "p99.9 ms", "CPU", "of which"]
        rows, firsts = [], {}
        for case in sorted(self.results, key=lambda case: list(OPERATIONS).index(case["operation"])):
            median = case["median"]
            same = tuple(case[name] for name in ("deployment", "https", "pets", "accounts", "operation", "load"))
            first = firsts.setdefault(same, total(case))
            ratio = f"{total(case) / first:.2f}" if first else ""
            parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in median["cpu"].items()) if len(median["cpu"]) > 1 else ""
            rows.append([ASKED[case["operation"]], *(text(case) for text in self.varying.values()), *([ratio] if with_ratio else []),
                         f"{median['rps']:,.0f}", *([f"{median['refused']:.0%}"] if self.some_refused else []),
                         *(f"{median[name]:.2f}" for name in ("p50", "p99", "p999")), f"{total(case):.2f}", parts])
        return table(head, rows)

    def of_memories(self):
        """Returns the table of memory: one row for each service."""
        parts = lambda figures: ", ".join(f"{name} {value:.1f}" for name, value in figures.items())
        varying = {name: text for name, text in self.varying.items() if name != "load"}
        idle = self.memories[0]["idle_connections"]
        head = [*(varying or ["deployment"]), "MiB at rest", "MiB at most", *([f"KiB for each of {idle:,} idle connections"] if idle else [])]
        rows = [[*([text(memory) for text in varying.values()] or [DEPLOYED[memory["deployment"]]]), parts(memory["rest"]),
                 parts(memory["most"]), *([parts(memory["idle"])] if idle else [])] for memory in self.memories]
        return table(head, rows)

    def bars(self):
        """Returns the title of the plot, and a function that returns the parts of the bar of a case. At fixed rates latency is
        of interest, otherwise CPU time."""
        if any("/s" in case["load"] for case in self.results):
            return ("Latency in milliseconds",
                    lambda case: {"p50": case["median"]["p50"], "to p99": case["median"]["p99"] - case["median"]["p50"]})
        return "CPU seconds per 100,000 requests, by process", lambda case: case["median"]["cpu"]

    def svg(self):
        """Returns the plot: one bar for each case, with rate, latency and CPU time beside it."""
        title, parts_of = self.bars()
        length_of = lambda case: sum(parts_of(case).values())
        columns = [("requests/s", 75, lambda median: f"{median['rps']:,.0f}")]
        if self.some_refused:
            columns.append(("503", 45, lambda median: f"{median['refused']:.0%}" if median["refused"] else ""))
        columns.append(("p50 ms", 60, lambda median: f"{median['p50']:.2f}"))
        if "to p99" in parts_of(self.results[0]):
            columns.append(("CPU", 60, lambda median: f"{sum(median['cpu'].values()):.2f}"))
        else:
            columns.append(("p99 ms", 60, lambda median: f"{median['p99']:.2f}"))
        width, line, right = 920, 20, 45 + sum(wide for _, wide, _ in columns)
        labels = [", ".join(text(case) for name, text in self.varying.items()) for case in self.results]
        left = 24 + 7 * max(map(len, labels))
        across = width - left - right
        longest = max(map(length_of, self.results)) or 1
        step = tick(longest)
        most = step * (int(longest / step) + 1)
        shapes = []

        def text(x, y, words, kind=""):
            shapes.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{html.escape(words)}</text>')

        text(12, 24, title, "strong")
        for place, words in enumerate(wrapped(self.heading(), 140)):
            text(12, 44 + 16 * place, words, "faint")
        y = 44 + 16 * len(wrapped(self.heading(), 140)) + 8
        x = 12
        for name in dict.fromkeys(name for case in self.results for name in parts_of(case)):
            shapes.append(f'<rect x="{x}" y="{y - 10}" width="12" height="12" rx="2" fill="{COLOURS.get(name, "#999")}"/>')
            text(x + 17, y, name)
            x += 40 + 7 * len(name)
        ends = [width - right + 35 + end for end in itertools.accumulate(wide for _, wide, _ in columns)]
        for end, (title, _, _) in zip(ends, columns):
            text(end, y, title, "faint number")
        y += 14
        top = y
        bars = []
        for operation in dict.fromkeys(case["operation"] for case in self.results):
            bars.append((y + 15, operation, None))
            y += line + 2
            for case, label in zip(self.results, labels):
                if case["operation"] == operation:
                    bars.append((y, label, case))
                    y += line
            y += 8
        for number in range(int(most / step) + 1):
            x = left + across * number * step / most
            shapes.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{y}" class="line"/>')
            shapes.append(f'<text x="{x:.1f}" y="{y + 15}" class="faint" text-anchor="middle">{number * step:g}</text>')
        for at, words, case in bars:
            if case is None:
                text(12, at, ASKED[words], "strong")
                shapes.append(f'<text x="{left + 6:.1f}" y="{at}" class="faint">{html.escape(OPERATIONS[words])}</text>')
                continue
            text(left - 8, at + 14, words, "number")
            x = left
            for name, figure in parts_of(case).items():
                length = figure / most * across
                shapes.append(f'<rect x="{x:.1f}" y="{at + 3}" width="{length:.1f}" height="{line - 6}" fill="{COLOURS.get(name, "#999")}"/>')
                x += length
            text(x + 5, at + 14, f"{length_of(case):.1f}")
            for end, (_, _, figure) in zip(ends, columns):
                text(end, at + 14, figure(case["median"]), "number")
        height = y + 28
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
                f'font-family="system-ui, sans-serif" font-size="12">\n<style>{STYLE}</style>\n'
                f'<rect width="{width}" height="{height}" class="ground"/>\n' + "\n".join(shapes) + "\n</svg>\n")

    def write(self, folder, name):
        os.makedirs(folder, exist_ok=True)
        for ending, text in [("json", json.dumps(dataclasses.asdict(self), indent=1) + "\n"),
                             ("md", f"# {name}\n\n![The table below as bars]({name}.svg)\n\n{self.markdown()}"),
                             ("svg", self.svg())]:
            with open(os.path.join(folder, f"{name}.{ending}"), "w") as file:
                file.write(text)


def tick(most):
    """Returns a round number that divides `most` into 3 to 10 steps."""
    power = 10.0 ** (len(str(int(most))) - 1) if most >= 1 else 0.1
    return next(step for step in (power / 5, power / 2, power, 2 * power) if most / step <= 8)


def wrapped(words, most):
    lines = [""]
    for word in words.split():
        if len(lines[-1]) + len(word) >= most:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines
