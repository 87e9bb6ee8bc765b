#!/usr/bin/env bash
# Makes a virtual environment of Python in a folder, once, with what pip is told to install. Who calls it while it works waits
# for it.
set -euo pipefail
(($# >= 2)) || { echo "usage: $0 FOLDER WHAT_PIP_INSTALLS..." >&2; exit 2; }
made=$1
shift

mkdir -p "$(dirname "$made")"
exec 9>"$made.lock"
flock 9
# Its last file says that it is whole.
if [[ ! -e $made/whole ]]; then
  rm -rf "$made"
  python3 -m venv "$made" >&2
  # Nothing is compiled here: that would need more than Python, and minutes.
  "$made/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: "$@" >&2
  touch "$made/whole"
fi
