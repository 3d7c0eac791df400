# Two commands do everything on a machine that has Python 3.11 or newer, make and a C/C++
# compiler: `make demo` and `make test`. What they need is installed into .venv by
# tools/bootstrap.sh, which is quick (about 0.1 s) when nothing changed.

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
BIN := .venv/bin

# The Python to build .venv from. Empty: the one of .venv, or the first of python3,
# python3.13, python3.12, python3.11 that is new enough.
PYTHON ?=
export PYTHON

# More words for the command itself, such as `make test ARGS="tests/unit -x"`.
ARGS ?=

.PHONY: help
help: ## List these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ready ## Start the platform, deploy examples/chat.yaml and stream an answer
	@$(BIN)/sits demo --file examples/chat.yaml $(ARGS)

.PHONY: test
test: ready-dev ## Run all tests (ARGS="tests/unit -x" to choose)
	@$(BIN)/pytest $(ARGS)

.PHONY: check
check: ready-dev ## Lint, format, types, layers and sizes; changes nothing
	@$(MAKE) -k check-lint check-format check-types check-layers check-purity check-size

.PHONY: check-lint check-format check-types check-layers check-purity check-size
check-lint:
	@$(BIN)/ruff check
check-format:
	@$(BIN)/ruff format --check
check-types:
	@$(BIN)/mypy
check-layers:
	@$(BIN)/lint-imports --no-logo
check-purity:
	@$(BIN)/python tools/check_purity.py
check-size:
	@$(BIN)/python tools/check_size.py

.PHONY: fmt
fmt: ready-dev ## Format the code and mend what the linter can mend
	@$(BIN)/ruff check --fix --quiet || true
	@$(BIN)/ruff format

.PHONY: headline
headline: ready ## Run all benchmarks and say what got worse (ARGS=--save keeps their results)
	@$(BIN)/python tools/headline.py $(ARGS)

.PHONY: bench-peers
bench-peers: ready ## Install what benchmarks measure against (minutes, once; they run without, too)
	@$(BIN)/python tools/bench_peers.py $(ARGS)

.PHONY: docs
docs: ready-dev ## Renew the documents that are made from the code
	@$(BIN)/python tools/make_reference.py

.PHONY: ready ready-dev
ready: ## Install what running needs into .venv (done by the others when needed)
	@tools/bootstrap.sh run
ready-dev: ## Install what tests and checks need, too
	@tools/bootstrap.sh dev

.PHONY: constraints
constraints: ready-dev ## Renew every pin in constraints.txt (then run check and test)
	@$(BIN)/python tools/renew_constraints.py

.PHONY: clean
clean: ## Remove .venv and all caches of this checkout (the built engine stays)
	@rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
