#!/usr/bin/env python3
"""Counts what a request costs a proxy: instructions in user space under callgrind, and calls of the system under strace.

Unlike times, both are the same whatever else the machine does, so that a change of one in a hundred is seen. What they
leave out is the kernel's work. valgrind has no vDSO: a look at the clock counts as a call of the system there, not here.
Functions are in `callgrind.NAME.1` beside the set-ups: `callgrind_annotate --inclusive=yes FILE`.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import time

import figures
import machine
import proxies
from machine import Load, Processes, raise_open_files
from proxies import Proxy, Site
from run import TENANTS, answers, build

PROXIES = {
    "router": Proxy("router", "router", True),
    "off": Proxy("router, limits off", "router", False),
    "store": Proxy("router, limits in Redis", "router-with-store", True),
    "agent": Proxy("agent", "agent", True),
    "haproxy": Proxy("haproxy, at parity", "haproxy", True, parity=True),
}
# Under valgrind a program takes its time to start.
machine.STARTING = 60.0
CALLGRIND = ["valgrind", "--tool=callgrind", "--instr-atstart=no"]


class Counter:
    """Measures one proxy at a time, with the load of the other benches."""

    def __init__(self, options, site, load, processes):
        self.options, self.site, self.load, self.processes = options, site, load, processes

    def run(self, proxy, seconds):
        """Requests that were answered. Those in flight at the end are no more than there are connections."""
        options = self.options
        got = self.load.closed(self.site.port, options.size, options.connections, seconds, proxy.field)
        if got["bad"]:
            raise SystemExit(f"{proxy.name}: {got['bad']} requests failed")
        return got["requests"]

    def started(self, proxy, under=()):
        self.site.under = list(under)
        started = self.site.start(proxy, self.processes, str(os.cpu_count() - 2))
        answers(self.site.port, self.options.size, proxy.field)
        self.run(proxy, self.options.warm)
        return started

    def instructions(self, name, proxy):
        """Instructions a request, in user space."""
        path = os.path.join(self.site.directory, f"callgrind.{name}")
        started = self.started(proxy, CALLGRIND + [f"--callgrind-out-file={path}"])
        pid = str(started[0].pid)
        try:
            told(pid, "--instr=on")
            requests = self.run(proxy, self.options.seconds)
            told(pid, "--instr=off")
            told(pid, "--dump")
        finally:
            self.processes.stop(started)
        with open(f"{path}.1") as file:
            total = int(re.search(r"^totals: (\d+)", file.read(), re.MULTILINE)[1])
        return total / requests

    def calls(self, name, proxy):
        """Calls of the system a request, by name."""
        path = os.path.join(self.site.directory, f"strace.{name}")
        started = self.started(proxy)
        tracing = subprocess.Popen(["strace", "-f", "-c", "-o", path, "-p", str(started[0].pid)], stderr=subprocess.DEVNULL)
        try:
            time.sleep(1)
            requests = self.run(proxy, self.options.seconds)
        finally:
            tracing.send_signal(signal.SIGINT)
            tracing.wait(10)
            self.processes.stop(started)
        with open(path) as file:
            rows = re.findall(r"^ +[\d.]+ +[\d.]+ +\d+ +(\d+) +(?:\d+ +)?(\w+)$", file.read(), re.MULTILINE)
        return {call: int(n) / requests for n, call in rows if call != "total"}


def told(pid, order):
    """Has callgrind do something with a process."""
    subprocess.run(["callgrind_control", order, pid], check=True, stdout=subprocess.DEVNULL)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("proxies", nargs="*", help=f"{' '.join(PROXIES)} (default: router off agent)")
    parser.add_argument("--seconds", type=int, default=10, help="of one measurement")
    parser.add_argument("--warm", type=int, default=3, help="seconds before that")
    parser.add_argument("--size", type=int, default=128, help="bytes of an answer")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--base-port", type=int, default=18400)
    parser.add_argument("--calls", action="store_true", help="calls of the system in place of instructions")
    return parser.parse_args()


def main():
    options = arguments()
    names = options.proxies or ["router", "off", "agent"]
    if unknown := set(names) - set(PROXIES):
        raise SystemExit(f"no such proxy: {', '.join(sorted(unknown))}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    proxies.install({"valgrind": "valgrind", "strace": "strace"})
    cofferdam, program = build()
    directory = os.path.join(os.path.dirname(os.path.dirname(cofferdam)), "peers")
    os.makedirs(directory, exist_ok=True)
    site = Site(directory, options.base_port, cofferdam, program, None, (raise_open_files(65536) - 1000) // 2)
    load = Load(program, str(os.cpu_count() - 1), directory, TENANTS)
    rows = []
    with Processes(os.path.join(directory, "processes.log")) as processes:
        processes.start([program, "backend", str(site.first_cell), "8"], load.core, site.first_cell)
        counter = Counter(options, site, load, processes)
        for name in names:
            proxy = PROXIES[name]
            if options.calls:
                calls = sorted(counter.calls(name, proxy).items(), key=lambda call: -call[1])
                rows += [[proxy.name, call, f"{n:.3f}"] for call, n in calls if n >= 0.001]
            else:
                rows.append([proxy.name, "instructions", f"{counter.instructions(name, proxy):,.0f}"])
            print(f"# {proxy.name} done", file=sys.stderr, flush=True)
    print(figures.table(["proxy", "what", "a request"], rows))


if __name__ == "__main__":
    main()
