#!/usr/bin/env bash
# deploy/stand-ins.sh FOLDER: leaves of a checkout what decides about its dependencies, and a stand-in without content for each
# source file that a manifest needs. An image's layer that builds the dependencies from that stays until a manifest changes.
set -euo pipefail

cd "$1"

# The source file of each target that a manifest names: where it says `path`, or else where Cargo looks for it.
targets() {
  awk '
    function flush() {
      if (kind == "bin") folder = "src/bin/"
      if (kind == "bench") folder = "benches/"
      if (kind == "test") folder = "tests/"
      if (kind == "example") folder = "examples/"
      if (kind != "") print (path == "" ? folder name : path)
      kind = name = path = ""
    }
    /^\[/ {
      flush()
      if (match($0, /^\[\[(bin|bench|test|example)\]\]/)) { kind = $0; gsub(/[][ ]/, "", kind) }
    }
    kind != "" && /^(name|path) *=/ { value = $0; sub(/^[^"]*"/, "", value); sub(/".*/, "", value)
      if ($0 ~ /^name/) name = value; else path = value }
    END { flush() }
  ' "$1"
}

# Before anything goes: where there is a folder with a main.rs, Cargo would take a file beside it for another one of its name.
sources=()
while IFS= read -r manifest; do
  folder=$(dirname "$manifest")
  while IFS= read -r source; do
    if [[ $source == *.rs ]]; then
      sources+=("$folder/$source")
    elif [[ -f $folder/$source/main.rs ]]; then
      sources+=("$folder/$source/main.rs")
    else
      sources+=("$folder/$source.rs")
    fi
  done < <(targets "$manifest")
done < <(find . -name Cargo.toml)

find . -type f ! -name Cargo.toml ! -name Cargo.lock -delete
find . -name Cargo.toml -execdir mkdir -p src ';' -execdir touch src/lib.rs ';'
for source in "${sources[@]}"; do
  mkdir -p "$(dirname "$source")"
  echo 'fn main() {}' >"$source"
done

# The command's crate is a program alone.
rm src/lib.rs
echo 'fn main() {}' >src/main.rs
