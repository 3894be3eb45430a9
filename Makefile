# hopring: bare `make` lists the targets. Everything lives in .venv; only test-net needs root.

VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)

.DEFAULT_GOAL := help
.PHONY: help setup compile demo test test-net test-spark check bench bench-cpu bench-peers fuzz pictures look wheel clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

setup: $(READY) ## make .venv with everything in it (quick when nothing changed)

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "hopring needs Python 3.11 or later: install it, or run make PYTHON=/path/to/python3"; exit 1; }
	@echo "setting up $(VENV) with $$($(PYTHON) --version)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --editable '.[dev,spark,jdk]'
	@touch $@

compile: setup ## compile the hot modules, where there is a C compiler (quick when nothing changed)
	@$(BIN)/python compile_core.py

demo: setup ## run the product's main job on this machine
	@$(BIN)/hop demo

test: compile ## all that CI runs: format, lint, types, tests, interpreted and compiled
	@$(MAKE) --no-print-directory lint
	$(BIN)/python -m pytest -q -n 2 -m 'not netns and not spark'
	HOPRING_PURE=0 $(BIN)/python -m pytest -q -n 2 -m 'not netns and not slow and not spark'
	@$(MAKE) --no-print-directory bench-cpu
	$(BIN)/python -m pytest -q -m 'spark and not long'
	$(BIN)/hop sim --seeds 400
	$(BIN)/python -m pytest -q -m 'netns and not long'

test-net: setup ## faults in network namespaces, judged by what clients saw; needs root
	$(BIN)/python -m pytest -q -m netns

test-spark: setup ## all tests on Spark, the long ones too: both checkers on hundreds of histories
	$(BIN)/python -m pytest -q -m spark

check: setup ## the fast part: format, lint, types, fast tests
	@$(MAKE) --no-print-directory lint
	$(BIN)/python -m pytest -q -n 2 -m 'not netns and not slow and not spark'

.PHONY: lint
lint:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: setup ## measure; figures are printed, never asserted in tests
	$(BIN)/python -m bench

bench-cpu: compile ## whether a message costs the daemons no more than recorded, with 30 % head-room
	$(BIN)/hop bench cpu --baseline bench/cpu_baseline.json

bench-peers: compile ## measure us beside other systems that are installed here; what is missing is named
	$(BIN)/python -m bench.peers

fuzz: setup ## a million fuzzed frames of clients, and as many of Spread clients
	$(BIN)/python -m tests.fuzz_clients
	$(BIN)/python -m tests.fuzz_spread

pictures: setup ## draw the pictures of the docs again
	@$(BIN)/python -m docs.pictures.make
	@$(BIN)/python -m docs.pictures.braid

look: setup ## look at the report in a browser, where there is Chromium
	@$(BIN)/python -m tests.look_at_report

wheel: setup ## build the wheel into dist/, compiled where there is a C compiler, and try it elsewhere
	@# What an earlier build has copied would go into this one, also what is no longer there.
	@rm -rf dist build/lib build/lib.* build/bdist.*
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	@$(BIN)/python -m tests.try_wheel dist/*.whl

clean: ## remove .venv and everything that was built
	rm -rf $(VENV) build dist out .mypy_cache .ruff_cache .pytest_cache .hypothesis src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
