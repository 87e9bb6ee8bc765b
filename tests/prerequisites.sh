#!/usr/bin/env bash
# Brings what the build and the tests call besides Rust, on Debian and its relatives. Installs nothing and says nothing
# where all is there; where it may not install, it prints what to install and exits 1.
set -euo pipefail

# command:packages. A line comes in with the test that needs it.
needs=(
  "cc:gcc libc6-dev"  # rustc links with it, and mimalloc is compiled with it
  "curl:curl"         # the data path is tried with a client that is not ours
  "python3:python3"   # the placement vectors are computed a second time, independently; and Python's clients
  "h2load:nghttp2-client"
  "redis-server:redis-server" # the store is tried on a real one
  "setpriv:util-linux"        # a server that a test started dies with the test
  "slowhttptest:slowhttptest" # what it does to a router, the others must not notice
  "nginx:nginx"               # where these two do otherwise than we is listed, and compared
  "haproxy:haproxy"
  "promtool:prometheus"       # alert rules and metrics are judged by the tool that reads them
)

# Where servers are on Debian, which is not on everybody's path.
PATH=$PATH:/usr/sbin:/sbin

packages=()
for need in "${needs[@]}"; do
  command -v "${need%%:*}" >/dev/null && continue
  read -ra names <<<"${need#*:}"
  packages+=("${names[@]}")
done
# Debian keeps a part of the standard library apart: without it there is no virtual environment.
python3 -c 'import ensurepip' 2>/dev/null || packages+=(python3-venv)
# Where there is a container engine, a fleet is started in it.
if docker info >/dev/null 2>&1 && ! docker compose version >/dev/null 2>&1; then
  command -v docker-compose >/dev/null || packages+=(docker-compose)
fi
((${#packages[@]})) || exit 0

refuse() {
  echo "missing: ${packages[*]} ($1); install them, on Debian with" >&2
  echo "  sudo apt-get install --no-install-recommends ${packages[*]}" >&2
  exit 1
}

command -v apt-get >/dev/null || refuse "no apt-get here"
as_root=()
if ((EUID != 0)); then
  sudo -n true 2>/dev/null || refuse "neither root nor sudo without a password"
  as_root=(sudo -n)
fi

# At runlevel 1, Debian installs a service without starting it.
as_root+=(env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1)
"${as_root[@]}" apt-get update -q || refuse "apt-get update failed"
"${as_root[@]}" apt-get install -qy --no-install-recommends "${packages[@]}" || refuse "apt-get install failed"
