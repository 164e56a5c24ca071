"""What was measured, as Markdown tables, JSON and an SVG."""

import html, json, os, platform, statistics

COLOURS = {"gateway": "#3b6ea5", "gateway 2": "#6fa0d0", "serve": "#3b6ea5", "core": "#7aa647", "redis": "#c0504d", "postgres": "#8064a2"}


def median_of(runs):
    """Of each figure, for those runs of one case."""
    first = runs[0]
    median = {name: statistics.median(run[name] for run in runs) for name in first if name not in ("cpu",)}
    median["cpu"] = {name: statistics.median(run["cpu"][name] for run in runs) for name in first["cpu"]}
    return median


def machine():
    with open("/proc/cpuinfo") as info:
        model = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), platform.machine())
    return f"{os.cpu_count()} cores of {model}, Linux {platform.release()}; load average {os.getloadavg()[0]:.1f}"


def markdown(results, settings):
    """One line for each case; the ratio is to the first variant's CPU time in the same case."""
    lines = [f"{settings}; {machine()}. CPU: seconds of all processes per 100,000 requests, PostgreSQL and Redis among them.", ""]
    with_ratio = len({case["variant"] for case in results}) > 1
    lines.append("| deployment | pets | accounts | operation | load |" + (" variant | ratio of CPU |" if with_ratio else "")
                 + " requests/s | p50 ms | p99 ms | p99.9 ms | CPU | of which |")
    lines.append("|---" * (13 if with_ratio else 11) + "|")
    firsts = {}
    for case in results:
        median, key = case["median"], tuple(case[name] for name in ("deployment", "pets", "accounts", "operation", "load"))
        total = sum(median["cpu"].values())
        first = firsts.setdefault(key, total)
        parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in median["cpu"].items()) if len(median["cpu"]) > 1 else ""
        variant = f" {case['variant']} | {total / first:.2f} |" if with_ratio and first else " | |" if with_ratio else ""
        deployment = case["deployment"] + (", HTTPS" if case["https"] else "")
        lines.append(f"| {deployment} | {case['pets']:,} | {case['accounts']:,} | {case['operation']} | {case['load']} |{variant} "
                     f"{median['rps']:,.0f} | {median['p50']:.2f} | {median['p99']:.2f} | {median['p999']:.2f} | {total:.2f} | {parts} |")
    return "\n".join(lines) + "\n"


def memory_markdown(memories):
    lines = ["| deployment | variant | MiB at rest | MiB at most, under that load | KiB for each of so many idle connections |", "|---|---|---|---|---|"]
    parts = lambda figures, form: ", ".join(f"{name} {value:{form}}" for name, value in figures.items())
    for memory in memories:
        idle = f"{parts(memory['idle'], '.1f')} ({memory['idle_connections']:,})" if memory["idle"] else ""
        lines.append(f"| {memory['deployment']}, {memory['pets']:,} pets, {memory['accounts']:,} accounts | {memory['variant']} "
                     f"| {parts(memory['rest'], '.1f')} | {parts(memory['most'], '.1f')} | {idle} |")
    return "\n".join(lines) + "\n"


def svg(results, title):
    """Bars: the CPU time of each case, by process."""
    left, bar, gap, width = 330, 16, 6, 900
    most = max((sum(case["median"]["cpu"].values()) for case in results), default=0) or 1
    height, shapes = 60 + len(results) * (bar + gap), []
    text = lambda x, y, words, anchor="start": shapes.append(
        f'<text x="{x}" y="{y}" text-anchor="{anchor}">{html.escape(words)}</text>')
    text(10, 18, title)
    at = 10
    names = list(dict.fromkeys(name for case in results for name in case["median"]["cpu"]))
    for name in names:
        shapes.append(f'<rect x="{at}" y="28" width="10" height="10" fill="{COLOURS.get(name, "#999")}"/>')
        text(at + 14, 37, name)
        at += 30 + 8 * len(name)
    for number, case in enumerate(results):
        y, x = 50 + number * (bar + gap), left
        words = f"{case['deployment']}{', HTTPS' if case['https'] else ''}, {case['operation']}, {case['load']}"
        for what in ("pets", "accounts"):
            if len({case[what] for case in results}) > 1:
                words += f", {case[what]:,} {what}"
        text(left - 8, y + 12, words if case["plain"] else f"{words}, {case['variant']}", "end")
        for name, seconds in case["median"]["cpu"].items():
            length = seconds / most * (width - left - 70)
            shapes.append(f'<rect x="{x:.1f}" y="{y}" width="{length:.1f}" height="{bar}" fill="{COLOURS.get(name, "#999")}"/>')
            x += length
        text(round(x + 6, 1), y + 12, f"{sum(case['median']['cpu'].values()):.1f}")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">\n'
            f'<rect width="{width}" height="{height}" fill="white"/>\n' + "\n".join(shapes) + "\n</svg>\n")


def write(folder, name, results, memories, settings):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{name}.json"), "w") as file:
        json.dump({"settings": settings, "machine": machine(), "results": results, "memory": memories}, file, indent=1)
        file.write("\n")
    with open(os.path.join(folder, f"{name}.svg"), "w") as file:
        file.write(svg(results, f"CPU seconds per 100,000 requests: {settings}"))
