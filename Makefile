# What people run. `make demo` and `make test` set up what they need.

CARGO ?= cargo

.PHONY: help demo test setup check-format lint test-rust docs msrv bare-metal clean

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

test-rust: ## unit, property, corpus, conformance and end-to-end tests, and the examples in the documentation
	$(CARGO) test --locked --workspace

docs: ## the documentation builds without a warning
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --document-private-items

msrv: ## the oldest Rust that is promised builds it all
	@tests/msrv

bare-metal: ## core builds for a machine without an operating system
	$(CARGO) build --locked --package scheduled-events-core --target thumbv7em-none-eabi

clean: ## remove what was built
	$(CARGO) clean
