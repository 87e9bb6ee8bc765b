#!/usr/bin/env bash
# Brings what the build and the tests call besides Rust, on Debian and its relatives. Installs nothing and says nothing
# where all is there; where it may not install, it prints what to install and exits 1.
set -euo pipefail

# command:packages. A line comes in with the test that needs it.
needs=(
  "cc:gcc libc6-dev"  # rustc links with it, and mimalloc is compiled with it
  "curl:curl"         # the data path is tried with a client that is not ours
  "python3:python3"   # the placement vectors are computed a second time, independently
)

packages=()
for need in "${needs[@]}"; do
  command -v "${need%%:*}" >/dev/null && continue
  read -ra names <<<"${need#*:}"
  packages+=("${names[@]}")
done
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

export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -q || refuse "apt-get update failed"
"${as_root[@]}" apt-get install -qy --no-install-recommends "${packages[@]}" || refuse "apt-get install failed"
