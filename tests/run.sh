#!/usr/bin/env bash
# Runs every test and closes with what was skipped, and with one line that counts all of cargo's test binaries. Fails
# where cargo fails, and where nothing ran at all.
set -euo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Documentation tests come first: cargo runs them apart from the rest, and a crate may well have none.
status=0
cargo test --workspace --doc --no-fail-fast 2>&1 | tee -a "$log" || status=$?
cargo test --workspace --tests --no-fail-fast 2>&1 | tee -a "$log" || status=$?

awk -v status="$status" '
  # The number that stands before a word of the line.
  function count(word) { return match($0, "[0-9]+ " word) ? substr($0, RSTART) + 0 : 0 }

  match($0, /(SKIPPED|NOT AS LISTED): .*/) { remarks[++remarked] = substr($0, RSTART) }
  /^test result: / {
    passed += count("passed"); failed += count("failed"); ignored += count("ignored"); binaries++
  }
  END {
    if (status != 0 && failed == 0) printf "cargo test ended with status %d\n", status
    if (status == 0 && passed == 0) { print "no test ran"; status = 1 }
    print ""
    for (i = 1; i <= remarked; i++) print remarks[i]
    printf "all tests: %d passed, %d failed, %d ignored, in %d binaries\n", passed, failed, ignored, binaries
    exit status
  }' "$log"
