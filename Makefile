# Penstock: `make` lists what one can do.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

.DEFAULT_GOAL := help
# Byte code is written beforehand, so that the first start is as quick as the next.
COMPILE := $(BIN)/python -m compileall -q src/penstock

KILLS ?= 50
JOBS ?= 4
SEEDS ?= 1000
MINUTES ?= 60

.PHONY: help install up test endure endure-pipelines sim chaos fuzz check bench demo demo-broker generate system-packages clean

help: ## List what one can do
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/it" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# Each stamp is as new as what it was made from, so a second `make up` starts at once.
$(VENV)/broker.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

# Spark, its jars, and a Java where the machine has none.
$(VENV)/spark.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[spark]'
	$(BIN)/penstock pipeline doctor
	@touch $@ $(VENV)/broker.stamp

$(VENV)/dev.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev,bench,spark]'
	$(BIN)/penstock pipeline doctor
	@touch $@ $(VENV)/broker.stamp $(VENV)/spark.stamp

install: $(VENV)/dev.stamp ## Make .venv with everything that development, tests and pipelines need

up: $(VENV)/broker.stamp ## Run a broker on localhost:9092 (ARGS="--port 9192 --data DIR")
	@$(COMPILE)
	@exec $(BIN)/penstock up $(ARGS)

# Many tests wait for timeouts and elections rather than compute: two more than two cores can take.
# The doctor, since the classes that Spark starts faster with may have made room for those of other
# checkouts. Tests run without them too.
test: install system-packages ## Run all tests (ARGS="-k words" picks some, JOBS=1 runs them one by one)
	@$(COMPILE)
	-@$(BIN)/penstock pipeline doctor >/dev/null
	$(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile \
	  --no-loadscope-reorder --max-worker-restart 0 --durations 25 $(ARGS)

endure: install ## Kill nodes and clients at work for longer (KILLS=50)
	@$(COMPILE)
	PENSTOCK_EOS_KILLS=$(KILLS) PENSTOCK_TEST_CRASHES=$(KILLS) PENSTOCK_SHARE_KILLS=$(KILLS) \
	  $(BIN)/python -m pytest -s --timeout 3600 -o faulthandler_timeout=0 \
	  tests/system/test_crashes.py tests/system/test_exactly_once.py tests/compat/test_share_history.py

endure-pipelines: install ## Kill drivers, executors and brokers under pipelines (KILLS=50)
	@$(COMPILE)
	PENSTOCK_PIPELINE_KILLS=$(KILLS) $(BIN)/python -m pytest -s --timeout 7200 -o faulthandler_timeout=0 \
	  tests/pipeline/test_exactly_once_topic.py tests/pipeline/test_exactly_once_lake.py

sim: install ## Run quorums and clusters through faults in virtual time (SEEDS=1000; SEED=n tells one)
	$(BIN)/python -m tests.sim $(if $(WORLD),--world $(WORLD)) $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

chaos: install ## Faults by chance over three real nodes under load (MINUTES=60; SEED=n)
	@$(COMPILE)
	$(BIN)/python -m tests.system.chaos --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) --report chaos.md

fuzz: install ## Feed everything that parses with inputs made up by coverage (MINUTES=60)
	$(BIN)/python -m pip install --quiet --editable '.[fuzz]'
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES)

check: install ## Lint, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: install ## Measure beside Apache Kafka; tables and charts go to bench/results
	@$(COMPILE)
	$(BIN)/python -m bench $(ARGS)

demo: $(VENV)/spark.stamp ## A log through three pipelines into a lake, all killed on the way, nothing lost
	@$(COMPILE)
	$(BIN)/python examples/web_log/demo.py $(ARGS)

demo-broker: $(VENV)/broker.stamp ## Write, kill -9 the broker, start it again, and count what is there
	@$(COMPILE)
	$(BIN)/python examples/kill_and_count.py

generate: install ## Write the generated code and pages anew
	$(BIN)/python -m codegen.generate
	$(BIN)/python -m codegen.configuration.page
	$(BIN)/python -m codegen.rights_page
	$(BIN)/python -m codegen.machines.page
	$(BIN)/python -m penstock.cli.reference
	$(BIN)/python -m penstock.pipeline.spec.reference

# kcat is one of the clients that tests/compat drives, PostgreSQL what pipelines read and write.
# Where they cannot be installed, their tests say so.
system-packages:
	@need=""; command -v kcat >/dev/null 2>&1 || need="kcat"; \
	  ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || need="$$need postgresql"; \
	  test -z "$$need" || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null 2>&1 && \
	  { apt-get install -y -qq $$need >/dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq $$need; } >/dev/null; }; } || \
	  echo "not here, and cannot be installed: $$need; their tests will be skipped" >&2

clean: ## Remove what make made
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .hypothesis .import_linter_cache
