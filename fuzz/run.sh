#!/usr/bin/env bash
# Fuzzes each target, or those that are named, for FUZZ_SECONDS. What is found grows in `corpus/`, which is not kept in
# git; a crash lies in `artifacts/`, and ends the run.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${FUZZ_SECONDS:-60}
targets=("$@")
((${#targets[@]})) || targets=(upstream tenant_id fleet_file rate duration)

for target in "${targets[@]}"; do
  mkdir -p "fuzz/corpus/$target"
  # No sanitizer: they need a nightly compiler, and safe Rust panics where they would speak.
  cargo fuzz run --sanitizer none "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
    -max_total_time="$seconds" -timeout=5 -max_len=8192 -print_final_stats=1
done
