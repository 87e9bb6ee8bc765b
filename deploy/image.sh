#!/usr/bin/env bash
# deploy/image.sh BINARY TAG: an image of a binary that is there already, which Debian 12 must be able to run.
set -euo pipefail

binary=$(realpath "$1")
tag=$2

# The engine is sent these two files and nothing that lies beside them.
context=$(mktemp -d)
trap 'rm -r "$context"' EXIT
cp "$binary" "$context/cofferdam"
cp "$(dirname "$0")/Dockerfile" "$context/Dockerfile"
docker build -q --target prebuilt -t "$tag" "$context"
docker run --rm "$tag" --version || {
  echo "$tag does not run: was $binary linked against a libc that is newer than Debian 12's?" >&2
  exit 1
}
