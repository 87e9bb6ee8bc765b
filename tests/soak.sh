#!/usr/bin/env bash
# Runs the random tests again and again for SOAK_SECONDS (600), each round with another seed, and fails at the first round that
# fails. Each round prints its seed, and a failed one the command that repeats it.
set -euo pipefail
cd "$(dirname "$0")/.."

# Every crate with tests that draw from a seed.
crates=(bulkhead fleet limits model placement proxy router telemetry)
seconds=${SOAK_SECONDS:-600}
packages=()
for crate in "${crates[@]}"; do packages+=(-p "cofferdam-$crate"); done

log=$(mktemp)
trap 'rm -f "$log"' EXIT
end=$((SECONDS + seconds)) rounds=0
while ((rounds == 0 || SECONDS < end)); do
  seed=$(od -An -N8 -tu8 /dev/urandom | tr -d ' ')
  echo "round $((++rounds)): seed $seed"
  # A failure of the first round's seed must not become a file of the next one's.
  if ! PROPTEST_RNG_SEED=$seed cargo test "${packages[@]}" --tests >"$log" 2>&1; then
    grep -vE '^test .* \.\.\. ok$' "$log" || true
    echo "failed: PROPTEST_RNG_SEED=$seed cargo test ${packages[*]} --tests"
    exit 1
  fi
done
echo "$rounds rounds passed in $SECONDS s"
