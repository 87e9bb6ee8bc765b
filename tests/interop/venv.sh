#!/usr/bin/env bash
# Makes the virtual environment of the Python clients in a folder, once for each requirements.txt and Python, and prints
# the path of its interpreter.
set -euo pipefail
(($# == 1)) || { echo "usage: $0 FOLDER" >&2; exit 2; }

here=$(dirname "$0")
requirements=$here/requirements.txt
key=$({ python3 -VV; command -v python3; cat "$requirements"; } | sha256sum | cut -c -16)
"$here/../support/venv.sh" "$1/$key" --requirement "$requirements"
echo "$1/$key/bin/python"
