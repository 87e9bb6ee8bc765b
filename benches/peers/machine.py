"""Processes and what they cost. Everything that is started here is stopped here, by its process id."""

import json
import os
import re
import resource
import signal
import socket
import subprocess
import time

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
STARTING = 10.0
STOPPING = 3.0


class Processes:
    """A context: whatever is still running at its end is stopped."""

    def __init__(self, log):
        self.log = open(log, "ab")
        self.running = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop(list(self.running))
        self.log.close()

    def start(self, command, cores, port):
        """Starts `command` on `cores` and waits until it listens on `port`."""
        pinned = ["taskset", "-c", cores] + command
        process = subprocess.Popen(
            pinned, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True
        )
        self.running.append(process)
        until = time.monotonic() + STARTING
        while process.poll() is None and time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return process
            except OSError:
                time.sleep(0.02)
        raise SystemExit(f"{command[0]} did not listen on port {port}: {self.log.name} has what it said")

    def stop(self, processes):
        for process in processes:
            if process.poll() is None:
                process.terminate()
        for process in processes:
            try:
                process.wait(STOPPING)
            except subprocess.TimeoutExpired:
                # Its group holds its workers as well.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            self.running.remove(process)


def stat(pid):
    """Parent, seconds of CPU and resident bytes of a process."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[1]), (int(fields[11]) + int(fields[12])) / TICK, int(fields[21]) * PAGE


def usage(roots):
    """Seconds of CPU and resident bytes of processes and all their descendants."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                found[int(name)] = stat(name)
            except OSError:
                pass  # It ended meanwhile.
    mine, grown = set(roots), True
    while grown:
        more = {pid for pid, (parent, _, _) in found.items() if parent in mine} - mine
        mine |= more
        grown = bool(more)
    seen = [found[pid] for pid in mine if pid in found]
    return sum(cpu for _, cpu, _ in seen), sum(memory for _, _, memory in seen)


def busy():
    """Seconds in which all cores together did something."""
    with open("/proc/stat") as file:
        fields = [int(field) for field in file.readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / TICK


def ours():
    """Seconds of CPU of this program and of all that it started."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage([os.getpid()])[0] + ended.ru_utime + ended.ru_stime


def measured(processes, load):
    """Runs `load`, and adds the CPU for a request of `processes` and what strangers used, in percent of a core. Where
    those took more than 15 %, it is done again, twice at most."""
    pids = [process.pid for process in processes]
    for _ in range(3):
        cpu, all_busy, all_ours, began = usage(pids)[0], busy(), ours(), time.monotonic()
        figures = load()
        took = time.monotonic() - began
        figures["cpu_us"] = (usage(pids)[0] - cpu) * 1e6 / max(figures["requests"], 1)
        figures["strangers"] = max(0.0, (busy() - all_busy) - (ours() - all_ours)) / took * 100
        if figures["strangers"] <= 15:
            break
    return figures


def raise_open_files(wanted):
    """As many open files as may be had, `wanted` at most."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (max(wanted, hard), hard):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, limit), limit))
            break
        except (ValueError, OSError):
            continue
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


WRK = """
local requests, at = {}, 0
function init(_)
  for tenant = 0, %(tenants)d - 1 do
    requests[tenant] = wrk.format("GET", nil, { ["%(field)s"] = "tenant-" .. tenant })
  end
end
function request() at = (at + 1) %% %(tenants)d; return requests[at] end
function done(summary, latency, _)
  local errors = summary.errors
  print(string.format('{"requests":%%d,"us":%%d,"bad":%%d,"p50_us":%%d,"p99_us":%%d}', summary.requests, summary.duration,
    errors.status + errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50), latency:percentile(99)))
end
"""


class Load:
    """The generators, all on one core."""

    def __init__(self, program, core, directory, tenants):
        self.program, self.core, self.tenants = program, core, tenants
        self.directory = directory

    def script(self, field):
        path = os.path.join(self.directory, f"{field}.lua")
        with open(path, "w") as file:
            file.write(WRK % {"tenants": self.tenants, "field": field})
        return path

    def run(self, command, seconds):
        done = subprocess.run(
            ["taskset", "-c", self.core] + command, capture_output=True, text=True, timeout=seconds + 20
        )
        line = re.search(r"^\{.*\}$", done.stdout, re.MULTILINE)
        if done.returncode or not line:
            raise SystemExit(f"{command[0]} failed: {done.stderr or done.stdout}")
        return json.loads(line[0])

    def closed(self, port, size, connections, seconds, field):
        """As fast as the answers come; `field` says whose a request is."""
        url = f"http://127.0.0.1:{port}/b/{size}"
        figures = self.run(
            ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "5s", "-s", self.script(field), url],
            seconds,
        )
        return figures | {"rate": figures["requests"] * 1e6 / figures["us"]}

    def open(self, port, size, connections, seconds, rate):
        """At a fixed rate, whatever the proxy does."""
        order = [f"127.0.0.1:{port}", f"/b/{size}", str(rate), str(connections), str(seconds), str(self.tenants)]
        return self.run([self.program, "open-loop"] + order, seconds)
