# What people run. `make demo` and `make test` set up what they need.

CARGO ?= cargo
PREFIX ?= /usr/local
SECONDS ?= 20
SEEDS ?= 1000
POLLS ?= 86400

.PHONY: help demo test setup check-format lint test-rust test-mounts test-c test-python wheel docs msrv bare-metal platforms deny advisories prove-no-panic coverage mutants crash soak check-systemd test-systemd sizes test-stack fuzz test-fuzz miri install header faults-table bench bench-poll bench-python bench-sizes performance bench-check bench-c clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' Makefile

demo: ## a maintenance, start to end, against a built-in imitation of Azure
	@$(CARGO) run --quiet --locked --package scheduled-events -- demo

test: ## everything that is tested, with totals at the end
	@tests/run

setup: ## install what the tests need: Rust targets, and Debian packages where this is Debian
	@tests/setup

check-format: ## the code is formatted
	$(CARGO) fmt --all --check

lint: ## Clippy has nothing to say
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --locked --package scheduled-events-core --test stack -- -D warnings
	$(CARGO) clippy --locked --package scheduled-events --test mounts --test crash --test soak -- -D warnings

test-rust: ## unit, property, corpus, conformance and end-to-end tests, and the examples in the documentation
	$(CARGO) test --locked --workspace

test-mounts: ## the state file on a full and on a read-only disk, which takes a mount
	@tests/mounts

crash: ## the command is killed at every boundary, a thousand seeds: make crash SEEDS=10000; one again: SEED=7
	CRASH_SEEDS=$(SEEDS) CRASH_SEED=$(SEED) $(CARGO) test --locked --package scheduled-events --test crash

soak: ## a day of polls in a minute: nothing grows, nothing is lost. A year takes hours: make soak POLLS=31536000
	SOAK_POLLS=$(POLLS) $(CARGO) test --locked --package scheduled-events --test soak

check-systemd: ## the systemd unit is understood, and as closed as it can be
	@client/systemd/check

test-systemd: ## the unit under a real systemd: ready, watched, started again, stopped
	@client/systemd/try

docs: ## the documentation builds without a warning
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --document-private-items

msrv: ## the oldest Rust that is promised builds it all
	@tests/msrv

bare-metal: ## core builds for a machine without an operating system
	$(CARGO) build --locked --package scheduled-events-core --target thumbv7em-none-eabi

test-c: ## the C library, its headers, examples and packages
	@python3 tests/c/run.py

test-python: ## the Python package: wheel, types, tests
	@tests/python/run

wheel: ## the Python wheel, in target/wheels
	@python3 -m venv target/python/venv && target/python/venv/bin/pip install -q 'maturin>=1.9.4,<2'
	cd py && CARGO_TARGET_DIR=../target ../target/python/venv/bin/maturin build --out ../target/wheels

platforms: ## client and core build for the other systems that are promised: ARM, musl, Windows
	@for target in aarch64-unknown-linux-gnu x86_64-unknown-linux-musl x86_64-pc-windows-gnu; do \
		echo "platforms: $$target"; \
		$(CARGO) clippy --locked --package scheduled-events --package scheduled-events-core --target $$target -- -D warnings \
			|| exit 1; \
	done

deny: ## the crates below this project: their licenses, their sources, and none that is not wanted; needs no network
	$(CARGO) deny --locked check licenses bans sources

advisories: ## known vulnerabilities of the crates below: fetches the list of them from GitHub, so no part of `make test`
	$(CARGO) deny --locked check advisories

prove-no-panic: ## core cannot panic: linked without std and allocator for two targets, searched, and run
	@tests/no-panic/prove.sh

coverage: ## how much of core its tests reach: 98 % of its lines at least
	@tests/coverage

mutants: ## core changed in small ways that its tests must notice; hours: make mutants FILES="policy.rs session/work.rs"
	@tests/mutants $(FILES)

sizes: ## what core takes: code, memory for each event, stack for each call; what the command takes, with limits
	@tests/sizes/sizes.sh
	@tests/sizes/command.sh

test-stack: ## core's calls stay within their stack, and no document makes them take more
	$(CARGO) test --locked --release --package scheduled-events-core --test stack

fuzz: ## every fuzz target, SECONDS seconds each: make fuzz SECONDS=60
	@fuzz/run.sh $(SECONDS)

test-fuzz: ## the fuzz targets' bodies as plain tests, over the corpus and what fuzzing found
	cd fuzz && $(CARGO) test --locked

miri: ## core under Miri: here, big-endian, 32 bits
	@tests/miri/run.sh

install: ## install the C library, its headers and packages: make install PREFIX=/usr/local
	@ffi-c/install.sh $(PREFIX)

header: ## write include/scheduled_events.h anew from the sources
	@ffi-c/header/generate.sh

faults-table: ## write docs/faults.md anew from the tests
	SCHEDULED_EVENTS_WRITE_FAULTS_PAGE=1 $(CARGO) test --quiet --locked --package scheduled-events --test suite the_page

bench: ## reading documents, beside other parsers: make bench ARGS="--documents S,L --rivals core,yyjson --seconds 1"
	@bench/setup
	@mkdir -p target/performance
	cd bench && $(CARGO) run --release --locked -- --json ../target/performance/read.json $(ARGS)

bench-poll: ## a whole poll over loopback, beside a bare GET and Python's HTTP libraries
	@bench/setup
	@bench/poll/run.sh $(ARGS)

bench-python: ## the Python module beside orjson, msgspec, json and requests
	@bench/setup
	@bench/python.sh $(ARGS)

bench-sizes: ## what the command and the libraries weigh, and what each dependency costs: ARGS=--variants for more
	@bench/setup
	@mkdir -p target/performance
	@bench/sizes.py --json target/performance/sizes.json $(ARGS)

performance: ## all benches, and docs/performance.md written anew from what they say
	$(MAKE) bench
	$(MAKE) bench-poll
	$(MAKE) bench-python
	$(MAKE) bench-sizes ARGS=--variants
	bench/tables.py

bench-check: ## the instructions of core's main calls, counted, against bench/instructions.toml: at most 3 % more
	@bench/setup
	cd bench && $(CARGO) run --quiet --release --locked --bin instructions -- $(ARGS)

bench-c: ## what reading costs through C, beside the Rust core in one run
	@python3 tests/c/run.py --bench

clean: ## remove what was built
	$(CARGO) clean
