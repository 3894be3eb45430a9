# hopring: bare `make` lists the targets. Everything lives in .venv; only tests in network namespaces need root.

VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
ARROW  := $(VENV)/.arrow
SPARK  := $(VENV)/.spark
PEERS  := $(VENV)/.peers
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)

.DEFAULT_GOAL := help
.PHONY: help setup arrow spark compile demo test test-long test-net test-spark check bench bench-cpu bench-peers fuzz pictures look wheel clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

setup: $(READY) ## make .venv for client, daemon and simulator, with the tools (quick when nothing changed)

# Each stage of .venv is a stamp file; a target depends on the stages that it needs, so nobody downloads Spark for a unit test.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
HAS_JAVA = $(BIN)/python -c 'import os; from hopring.spark.java import decide, look; decide(look(os.environ))' 2>/dev/null

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "hopring needs Python 3.11 or later: install it, or run make PYTHON=/path/to/python3"; exit 1; }
	@echo "setting up $(VENV) with $$($(PYTHON) --version): about 40 MB to download, 180 MB on disk"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade pip setuptools
	@$(PIP) --no-build-isolation --group dev --editable .
	@touch $@

arrow: $(ARROW) ## add pyarrow to .venv: Parquet and tables of spools
$(ARROW): $(READY)
	@echo "adding pyarrow to $(VENV): about 53 MB to download, 170 MB on disk"
	@$(PIP) --no-build-isolation --editable '.[arrow]'
	@touch $@

spark: $(SPARK) ## add Spark to .venv, and Java where there is none
$(SPARK): $(ARROW)
	@echo "adding Spark to $(VENV): about 480 MB to download, 700 MB on disk; it takes a minute or more"
	@$(PIP) --no-build-isolation --editable '.[spark,connect]'
	@$(HAS_JAVA) || { echo "adding Java to $(VENV), because this machine has none of version 17 or later: about 33 MB to download, 100 MB on disk"; \
		$(PIP) --no-build-isolation --editable '.[jdk]'; }
	@touch $@

$(PEERS): $(READY)
	@echo "adding the Python clients of other systems to $(VENV): about 16 MB to download"
	@$(PIP) --group peers
	@touch $@

compile: setup ## compile the hot modules, where there is a C compiler (quick when nothing changed)
	@$(BIN)/python tools/compile_core.py

demo: $(SPARK) ## run the product's main job on this machine
	@$(BIN)/hop demo

# Users run compiled code, so slow tests and all that start daemons run on it. The sources are tried by the fast tests, by
# those that plant bugs into them, and by a few that start interpreted daemons (`both`). Tests of daemons mostly wait for
# timers, so there are more workers than processors.
EVERYWHERE := not netns and not spark and not long
COMPILED   := HOPRING_PURE=0 $(BIN)/python -m pytest -q
SOURCES    := HOPRING_PURE=1 $(BIN)/python -m pytest -q

test: $(SPARK) ## all that CI runs: format, lint, types, tests on both builds, seeds, Spark, network namespaces
	@$(MAKE) --no-print-directory -j 2 lint compile
	$(COMPILED) -n 4 --dist worksteal -m '$(EVERYWHERE) and not interpreted'
	$(SOURCES) -n 4 --dist worksteal -m '$(EVERYWHERE) and (not slow or interpreted or both)'
	@$(MAKE) --no-print-directory bench-cpu
	$(BIN)/hop sim --seeds 400
	$(BIN)/hop sim --clients --seeds 100
	$(BIN)/hop sim --sealed --seeds 100
	$(BIN)/hop sim --sealed --clients --seeds 40
	$(SOURCES) -m 'spark and not long'
	$(SOURCES) -m 'netns and not long'

test-long: $(SPARK) compile ## what is too long for make test: everything marked long, and slow tests on the sources too
	$(SOURCES) -n 4 --dist worksteal -m '$(EVERYWHERE) and slow and not interpreted and not both'
	$(COMPILED) -m 'long and not interpreted and not netns'
	$(SOURCES) -m 'long and (interpreted or netns)'

test-net: compile ## all tests in network namespaces, the long ones too, judged by what clients saw; needs root
	$(SOURCES) -m netns

test-spark: $(SPARK) ## all tests on Spark, the long ones too: both checkers on hundreds of histories
	$(SOURCES) -m spark

check: setup ## the fast part: format, lint, types, fast tests
	@$(MAKE) --no-print-directory lint
	$(SOURCES) -n 2 -m '$(EVERYWHERE) and not slow'

.PHONY: lint
lint:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: setup ## measure; figures are printed, never asserted in tests
	$(BIN)/python -m hopring.bench

bench-cpu: compile ## whether a message costs the daemons no more than recorded, with 30 % head-room
	$(BIN)/hop bench cpu --baseline src/hopring/bench/cpu_baseline.json

bench-peers: $(PEERS) compile ## measure us beside other systems that are installed here; what is missing is named
	$(BIN)/python -m hopring.bench.peers

fuzz: compile ## a million fuzzed frames of clients, as many of Spread clients, and as many packets between daemons
	$(BIN)/python -m tests.fuzz.clients
	$(BIN)/python -m tests.fuzz.spread
	$(BIN)/python -m tests.fuzz.packets

pictures: $(ARROW) ## draw the pictures of the docs again
	@$(BIN)/python -m docs.pictures.make
	@$(BIN)/python -m docs.pictures.braid

look: $(ARROW) ## look at the report in a browser, where there is Chromium
	@$(BIN)/python -m tests.manual.look_at_report

wheel: setup ## build the wheel into dist/, compiled where there is a C compiler, and try it elsewhere
	@# What an earlier build has copied would go into this one, also what is no longer there.
	@rm -rf dist build/lib build/lib.* build/bdist.*
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	@$(BIN)/python -m tests.manual.try_wheel dist/*.whl

clean: ## remove .venv and everything that was built
	rm -rf $(VENV) build dist out .mypy_cache .ruff_cache .pytest_cache .hypothesis src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
