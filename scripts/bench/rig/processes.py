"""CPU time and memory of processes and of their children, from /proc."""

import collections, os, resource, time

TICKS = os.sysconf("SC_CLK_TCK")


def fields(pid):
    """Returns the fields of /proc/PID/stat from the third on. The second may contain spaces."""
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rsplit(")", 1)[1].split()


def tree(root):
    """Returns the ids of a process and all its descendants."""
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
    """Returns the CPU time used so far by a process and its descendants, including those that have ended."""
    for _ in range(20):
        pids = tree(root)
        try:
            ticks = sum(sum(map(int, fields(pid)[11:15])) for pid in pids)
        except OSError:
            continue
        if sorted(pids) == sorted(tree(root)):  # no process has ended in between and taken its time along
            return ticks / TICKS
    raise RuntimeError(f"process {root} never stands still")


class OtherWork:
    """CPU time of everything but this process and the children that it has waited for; includes other virtual machines."""

    def __init__(self):
        self.start, self.busy, self.own = time.monotonic(), self.busy_seconds(), self.own_seconds()

    def share(self):
        """Returns the share of the machine's CPU time since the start."""
        others = self.busy_seconds() - self.busy - (self.own_seconds() - self.own)
        return max(others, 0) / (time.monotonic() - self.start) / os.cpu_count()

    @staticmethod
    def busy_seconds():
        """Returns the busy time without interrupts, which cannot be attributed to a process."""
        with open("/proc/stat") as stat:
            user, nice, system, _, _, _, _, steal, *_ = map(int, stat.readline().split()[1:])
        return (user + nice + system + steal) / TICKS

    @staticmethod
    def own_seconds():
        return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def mebibytes(pid, field):
    """Returns `VmRSS` (resident now) or `VmHWM` (the peak) of one process. Its children share memory, so they are left out."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field + ":")) / 1024
