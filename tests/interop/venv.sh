#!/usr/bin/env bash
# Makes the virtual environment of the Python clients in a folder, once for each requirements.txt and Python, and prints
# the path of its interpreter. Who calls it while it works waits for it.
set -euo pipefail
(($# == 1)) || { echo "usage: $0 FOLDER" >&2; exit 2; }

requirements=$(dirname "$0")/requirements.txt
key=$({ python3 -VV; command -v python3; cat "$requirements"; } | sha256sum | cut -c -16)
made=$1/$key

mkdir -p "$1"
exec 9>"$1/lock"
flock 9
# Its last file says that it is whole.
if [[ ! -e $made/whole ]]; then
  rm -rf "$made"
  python3 -m venv "$made" >&2
  # Nothing is compiled here: that would need more than Python, and minutes.
  "$made/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: \
    --requirement "$requirements" >&2
  touch "$made/whole"
fi
echo "$made/bin/python"
