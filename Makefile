# The project's few commands. `make help` lists them.

SHELL := /bin/bash
.DEFAULT_GOAL := help
# The engine's own compose, or the older command beside it.
COMPOSE = $$(docker compose version >/dev/null 2>&1 && echo docker compose || echo docker-compose) -p cofferdam -f deploy/compose.yaml
.PHONY: demo fleet-up fleet-down test soak lint bench bench-limits exactness bench-peers bench-count faults-limits limits-live incidents fuzz audit help prerequisites

demo: ## Watch one noisy and one poisonous tenant meet a fleet (45 s after the build)
	cargo run --release -- demo

fleet-up: ## Start a fleet in containers, at http://127.0.0.1:7000 (without a registry: deploy/offline-images.sh first)
	cargo build --release
	deploy/image.sh $${CARGO_TARGET_DIR:-target}/release/cofferdam cofferdam
	$(COMPOSE) up -d --no-build

fleet-down: ## Take that fleet down
	$(COMPOSE) down -v

test: prerequisites ## Run every test: unit, property, contract, integration, documentation
	tests/run.sh

soak: prerequisites ## Run the random tests for SOAK_SECONDS (600), with other seeds in each round
	tests/soak.sh

lint: prerequisites ## Check the formatting, and clippy with every warning an error
	@cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
	@cargo clippy --version >/dev/null 2>&1 || rustup component add clippy
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

bench: ## Run the criterion benches, each beside its reference, and print the ratios beside their targets
	cargo bench --bench micro

bench-limits: ## Measure what sharing limits through Redis costs: calls and memory (3 min)
	cargo bench --bench limits

exactness: ## Play a million requests to routers that share limits, beside one exact limiter (10 min)
	EXACTNESS_REQUESTS=16500 cargo test -p cofferdam-limits --test it exactness -- --nocapture

bench-peers: ## Measure router and agent beside nginx and HAProxy (45 min; PEERS='--rounds 3 limits' for less)
	benches/peers/run.py $(PEERS)

bench-count: ## Count what a request costs router and agent, in instructions (2 min; COUNT='--calls' for calls of the system)
	benches/peers/count.py $(COUNT)

faults-limits: prerequisites ## Have faults of the store meet a fleet under load (4 min; FAULTS='link router' for some)
	cargo bench --bench faults -- $(FAULTS)

limits-live: prerequisites ## Count false refusals of 2 to 4 routers under many patterns (6 min; LIVE='tokens permits' for some)
	cargo bench --bench limits-live -- $(LIVE)

incidents: ## Make incidents happen to live fleets, and print what `cofferdam explain` says first of each
	@cargo test -q --test it incidents::every -- --nocapture | grep '^|'

fuzz: ## Fuzz every parser for FUZZ_SECONDS (60), without a sanitizer, so that stable Rust does
	@cargo fuzz --version >/dev/null 2>&1 || cargo install --locked cargo-fuzz
	fuzz/run.sh

audit: ## Check licences, advisories, bans and sources (fetches the advisory database)
	@command -v cargo-deny >/dev/null || cargo install --locked cargo-deny
	cargo deny check

help: ## List the commands
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

# Silent where everything is there.
prerequisites:
	@tests/prerequisites.sh
