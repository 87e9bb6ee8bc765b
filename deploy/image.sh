#!/usr/bin/env bash
# deploy/image.sh BINARY TAG: an image of a binary that is there already, which Debian 12 must be able to run.
set -euo pipefail

binary=$(realpath "$1")
tag=$2

# The engine is sent these two files and nothing that lies beside them: the first stage, with the binary in it.
context=$(mktemp -d)
trap 'rm -r "$context"' EXIT
cp "$binary" "$context/cofferdam"
{
  awk '/^FROM/ && n++ { exit } { print }' "$(dirname "$0")/Dockerfile"
  echo 'COPY cofferdam /usr/local/bin/cofferdam'
} >"$context/Dockerfile"
docker build -q -t "$tag" "$context"
docker run --rm "$tag" --version || {
  echo "$tag does not run: was $binary linked against a libc that is newer than Debian 12's?" >&2
  exit 1
}
