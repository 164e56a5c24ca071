"""CPU time and memory of processes and of their children, from /proc."""

import collections, os

TICKS = os.sysconf("SC_CLK_TCK")


def fields(pid):
    """Of /proc/PID/stat, from the third on: the second may hold spaces."""
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rsplit(")", 1)[1].split()


def tree(root):
    """The process and all below it."""
    children = collections.defaultdict(list)
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            children[int(fields(name)[1])].append(int(name))
        except OSError:
            pass  # it has ended
    found, left = [], [root]
    while left:
        found.append(left.pop())
        left += children[found[-1]]
    return found


def cpu_seconds(root):
    """Used so far by the process, those below it, and those below it that have ended."""
    for _ in range(20):
        pids = tree(root)
        try:
            ticks = sum(sum(map(int, fields(pid)[11:15])) for pid in pids)
        except OSError:
            continue
        if sorted(pids) == sorted(tree(root)):  # nobody has ended in between and taken its time along
            return ticks / TICKS
    raise RuntimeError(f"process {root} never stands still")


def mebibytes(pid, field):
    """`VmRSS` for what it has resident, `VmHWM` for the most that it had. Not of those below it: they share memory."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field + ":")) / 1024
