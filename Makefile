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
PARTS      := $(BIN)/python tools/run_parts.py
# Where tests with these marks are: otherwise all tests would be collected for a few.
NETNS_IN   := tests/netns
SPARK_IN   := tests/spark tests/services

# Without files of bytecode each of hundreds of processes would compile the modules, and each pytest all tests, anew.
export PYTHONDONTWRITEBYTECODE :=

# Tests of daemons wait for timers half of the time, and Spark has one thread most of the time: together they keep
# two processors busy. Priorities fall only a little, so that no part starves.
test: $(SPARK) ## all that CI runs: format, lint, types, tests on both builds, seeds, Spark, network namespaces
	@$(MAKE) --no-print-directory -j 3 -O lint compile collect
	+@$(PARTS) --minutes 90 part-netns+part-spark+part-compiled part-sources+part-seeds bench-cpu

test-long: $(SPARK) compile ## what is too long for make test: everything marked long, and slow tests on the sources too
	+@$(PARTS) --minutes 600 long-seeds long-sources long-compiled long-interpreted long-netns long-spark

.PHONY: collect part-compiled part-sources part-seeds part-spark part-netns
.PHONY: long-seeds long-sources long-compiled long-interpreted long-netns long-spark

# All modules of tests are imported once, so that several processes find their bytecode.
collect: $(SPARK)
	@mkdir -p build
	@$(SOURCES) --collect-only > build/collected.txt || { cat build/collected.txt; exit 1; }
	@tail -n 1 build/collected.txt

# Rules for the text of the sources are the same for both builds.
part-compiled:
	$(COMPILED) -n 4 --dist worksteal -m '$(EVERYWHERE) and not interpreted' --deselect tests/house/test_house.py

part-sources:
	$(SOURCES) -n 4 --dist worksteal -m '$(EVERYWHERE) and (not slow or interpreted or both)'

# tests/campaign has the worlds before these, and long-seeds those behind both.
part-seeds:
	$(BIN)/hop sim --start 41 --seeds 60
	$(BIN)/hop sim --clients --start 21 --seeds 10
	$(BIN)/hop sim --sealed --start 21 --seeds 10
	$(BIN)/hop sim --sealed --clients --start 21 --seeds 4
	$(BIN)/hop sim --resilient --start 21 --seeds 10
	$(BIN)/hop sim --resilient --clients --start 21 --seeds 4
	$(BIN)/hop sim --world rmp --start 21 --seeds 10
	$(BIN)/hop sim --world wide --start 61 --seeds 4
	$(BIN)/hop sim --world deployment --start 41 --seeds 6

long-seeds:
	$(BIN)/hop sim --start 101 --seeds 300
	$(BIN)/hop sim --clients --start 31 --seeds 70
	$(BIN)/hop sim --sealed --start 31 --seeds 70
	$(BIN)/hop sim --sealed --clients --start 25 --seeds 16
	$(BIN)/hop sim --resilient --start 31 --seeds 50
	$(BIN)/hop sim --resilient --clients --start 25 --seeds 16
	$(BIN)/hop sim --world rmp --start 11 --seeds 10
	$(BIN)/hop sim --world rmp --start 31 --seeds 70
	$(BIN)/hop sim --world wide --start 4 --seeds 57
	$(BIN)/hop sim --world wide --start 65 --seeds 26
	$(BIN)/hop sim --world deployment --start 47 --seeds 60
	$(BIN)/hop sim --calls --start 11 --seeds 10
	for kind in flush handlers locks log minimum state values; do $(BIN)/hop sim --blocks $$kind --start 9 --seeds 8 || exit 1; done

part-spark:
	$(SOURCES) -m 'spark and not long' $(SPARK_IN)

part-netns:
	$(SOURCES) -m 'netns and not long' $(NETNS_IN)

long-sources:
	$(SOURCES) -n 4 --dist worksteal -m '$(EVERYWHERE) and slow and not interpreted and not both'

long-compiled:
	$(COMPILED) -m 'long and not interpreted and not netns and not spark'

long-interpreted:
	$(SOURCES) -m 'long and interpreted and not netns and not spark'

long-netns:
	$(SOURCES) -m 'netns and long' $(NETNS_IN)

long-spark:
	$(SOURCES) -m 'spark and long' $(SPARK_IN)

test-net: compile ## all tests in network namespaces, the long ones too, judged by what clients saw; needs root
	$(SOURCES) -m netns $(NETNS_IN)

test-spark: $(SPARK) ## all tests on Spark, the long ones too: both checkers on hundreds of histories
	$(SOURCES) -m spark $(SPARK_IN)

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

fuzz: compile ## a million fuzzed frames of clients, as many of Spread clients, and as many packets of daemons and of peers
	$(BIN)/python -m tests.fuzz.clients
	$(BIN)/python -m tests.fuzz.spread
	$(BIN)/python -m tests.fuzz.packets
	$(BIN)/python -m tests.fuzz.peers

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
