#!/usr/bin/env bash
# Fuzzes each target, or those that are named, for FUZZ_SECONDS. It begins with `corpus/TARGET.tar.gz` and `seeds/`; what is
# found grows in `corpus/TARGET/`, which is not kept in git. `run.sh --keep [TARGET...]` packs what covers most of it with
# least, for git. A crash lies in `artifacts/`, and ends the run.
set -euo pipefail
cd "$(dirname "$0")/.."

keep=
if [[ ${1-} == --keep ]]; then
  keep=yes
  shift
fi
seconds=${FUZZ_SECONDS:-60}
targets=("$@")
((${#targets[@]})) || targets=(upstream fields traceparent grpc_timeout hop tenant_id fleet_file rate duration)

# No sanitizer: they need a nightly compiler, and safe Rust panics where they would speak.
fuzz() {
  local target=$1
  shift
  cargo fuzz run --sanitizer none "$target" "$@"
}

for target in "${targets[@]}"; do
  corpus=fuzz/corpus/$target
  mkdir -p "$corpus"
  if [[ -f $corpus.tar.gz ]]; then tar -xzf "$corpus.tar.gz" -C "$corpus" --skip-old-files; fi
  if [[ -z $keep ]]; then
    fuzz "$target" "$corpus" "fuzz/seeds/$target" -- \
      -max_total_time="$seconds" -timeout=5 -max_len=8192 -print_final_stats=1
    continue
  fi
  least=$(mktemp -d)
  fuzz "$target" "$least" "fuzz/seeds/$target" "$corpus" -- -set_cover_merge=1 -use_counters=0
  # The same files give the same bytes.
  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - -C "$least" . | gzip -9n >"$corpus.tar.gz"
  rm -r "$least"
done
