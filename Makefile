# One task runner. `make` alone prints the verbs; each of run, test and ui sets everything up first.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest -q
# Tests without a Spark session share the cores.
PARALLEL := -n auto --dist worksteal
# One worker runs the tests with Spark, in one session; all workers run the rest, in the order of `tests/conftest.py`.
# Some of them wait for other processes: one worker more than there are cores.
GROUPS := --dist loadgroup --no-loadscope-reorder
BESIDE_SPARK := -n $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) + 1 ))) $(GROUPS)
STAMP := .venv/.complete

# What has a verb of its own.
ELSEWHERE := interop or program or long or model or cluster or ceph or azure or postgres or mariadb or browser
# Format and lint; then types and imports beside the tests that are given. What is wrong with types or imports is told
# after the tests; either fails the verb.
define checked
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@{ $(BIN)/mypy --no-error-summary && $(BIN)/lint-imports --no-cache; } > build/types.log 2>&1 & types=$$!; \
	  failed=0; $(PYTEST) $(1) || failed=1; wait $$types || { cat build/types.log; failed=1; }; exit $$failed
endef

WAREHOUSE ?= ./warehouse
START ?= 2013-02-01
BATCHES ?= 16
PORT ?= 3000
SEEDS ?= 500
MINUTES ?= 10
SEED ?=
TURNS ?=
TOGETHER ?= 1
PART ?= 1/1

# No tool that we start reports home; Spark's workers use this environment's interpreter; loopback is enough.
export DAGSTER_DISABLE_TELEMETRY := 1
export PYSPARK_PYTHON := $(abspath $(BIN)/python)
ifdef CLUSTER
# A cluster of other machines must reach this one.
export LAKEHOUSE_SPARK_MASTER := $(CLUSTER)
else
export SPARK_LOCAL_IP := 127.0.0.1
endif
export PYTHONDONTWRITEBYTECODE :=
# Tests write to a file system in memory if it has 8 GB free: on a disk each small table waits for its fsync calls.
export PYTEST_DEBUG_TEMPROOT ?= $(shell df --output=avail,target /dev/shm 2> /dev/null | awk 'NR > 1 && $$1 > 8e6 {print $$2}')

.PHONY: help
help: ## Print this
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: setup ## Set up, run the main job on real data, print what it made and where to look
	@$(BIN)/python -m orchestration.run --warehouse "$(WAREHOUSE)" --start "$(START)" --batches "$(BATCHES)"

.PHONY: ui
ui: setup ## The Dagster UI on the warehouse that `make run` filled
	@$(BIN)/python -m orchestration.ui --warehouse "$(WAREHOUSE)" --port "$(PORT)"

.PHONY: test
test: setup ## Set up, pass all tests, and what `check` looks at
	$(call checked,$(BESIDE_SPARK) -m "not ($(ELSEWHERE))")

.PHONY: setup
setup: $(STAMP) ## The environment .venv from the lock file, git hooks, a Java runtime where there is none

$(STAMP): requirements.lock requirements-java.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version)'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing the locked packages into .venv"
	@$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -m lakehouse_dagster.resources.java_home > /dev/null 2>&1 || \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-java.lock
	@if git rev-parse --git-dir > /dev/null 2>&1; then git config core.hooksPath .githooks; fi
	@touch $(STAMP)

.PHONY: fix
fix: setup ## Format, sort imports, safe fixes
	@$(BIN)/ruff check --quiet --fix . || true
	@$(BIN)/ruff format --quiet .

.PHONY: check
check: setup ## Format, lint, types, imports, fast tests (no JVM)
	$(call checked,$(PARALLEL) -m "not (spark or dagster or golden or slow or $(ELSEWHERE))")

$(shell mkdir -p build)

.PHONY: test-spark
test-spark: setup ## The tests with Spark, alone
	@$(PYTEST) -m "spark and not cluster"

.PHONY: test-golden
test-golden: setup ## The tests against tables that Java Paimon wrote, alone
	@$(PYTEST) $(PARALLEL) -m golden

.PHONY: test-long
test-long: setup ## More cases of the longest tests, which `make test` leaves out (PART=2/3: every third of them)
	@$(PYTEST) -n auto $(GROUPS) -m "long or sweep" --each-call --part $(PART)

.PHONY: model
model: setup ## 2,560 row changes in tables of every layout, against a row-wise model, and some on Spark
	@$(PYTEST) $(PARALLEL) -m model

.PHONY: laws
laws: setup ## The laws with more examples than in `make test`, the same every time (PART=2/3: every third of them)
	@$(PYTEST) $(PARALLEL) -m "hypothesis and not (spark or $(ELSEWHERE))" --hypothesis-profile=laws --part $(PART)

.PHONY: test-programs
test-programs: setup ## The tests of whole programs: the installed wheel, the shell, the code of pages, the main job
	@$(PYTEST) $(BESIDE_SPARK) -m "program and not long"

.PHONY: test-wheel
test-wheel: setup ## The wheel with its extras under another Python (PYTHON=python3.13; packages come from the index)
	@$(BIN)/python -m tests.packaging.other_python "$(PYTHON)"

.PHONY: cluster
cluster: setup ## The tests with a standalone Spark cluster of two workers on loopback (PART=1/2: every second of them)
	@$(PYTEST) -m cluster --part $(PART)

.PHONY: ceph
ceph: setup ## The tests with Ceph's S3 gateway, a real server (installs it by apt-get where it is missing; PART=1/2)
	@$(PYTEST) -m ceph --part $(PART)

.PHONY: azure
azure: setup ## The tests with Azurite, a server of Azure Blob Storage (needs Node.js; npm installs it)
	@$(PYTEST) -m azure

.PHONY: test-deploy
test-deploy: setup ## The shared instance with PostgreSQL, as `deploy/` describes it (needs PostgreSQL's server)
	@# They wait more than they compute: all at once.
	@$(PYTEST) -n 3 --dist load -m postgres

.PHONY: test-mariadb
test-mariadb: setup ## Catalogs in MariaDB, also with real Java (needs MariaDB's server, Maven and a JDK)
	@$(PYTEST) -n 2 --dist loadfile -m mariadb

.PHONY: test-browser
test-browser: setup ## The pages of `make ui` in a browser, with screenshots in build/screenshots (needs Chromium)
	@$(PYTEST) -m browser

.PHONY: interop
interop: setup ## With real Java Paimon, its Spark connector and pypaimon, both ways (needs Maven and a JDK; PART=1/2: every second case)
	@$(BIN)/python -m tests.interop --part $(PART)

.PHONY: differential
differential: setup ## Random histories: the model, real Java and ours, all ways (SEEDS=500; needs Maven and a JDK)
	@$(BIN)/python -m tests.differential --seeds "$(SEEDS)"

.PHONY: search
search: setup ## Random searches for so many MINUTES or TURNS, with a printed seed (SEED= to repeat one)
	@$(BIN)/python -m tests.search --minutes "$(MINUTES)" $(if $(SEED),--seed "$(SEED)") $(if $(TURNS),--turns "$(TURNS)")

.PHONY: bench bench-quick
bench: setup ## All benchmarks, with their floors and peers
	@$(BIN)/python -m benchmarks
bench-quick: setup ## A tenth of each (TOGETHER=2: two at once, to see that they run; PART=2/3: every third of them)
	@$(BIN)/python -m benchmarks --quick --together $(TOGETHER) --part $(PART)

.PHONY: race-s3
race-s3: setup ## Processes that race on an object store (ENDPOINT= and BUCKET= for yours; else a server for tests)
	@$(BIN)/python -m benchmarks.race_s3 --endpoint "$(ENDPOINT)" --bucket "$(BUCKET)"

.PHONY: docs
docs: setup ## The pages and the reference as a site in build/site; a warning is an error
	@# Told to be quiet it would not count its warnings.
	@$(BIN)/mkdocs build --strict > build/mkdocs.log 2>&1 || { cat build/mkdocs.log; exit 1; }

.PHONY: smells
smells: setup ## Places worth a look: long modules and functions, many parameters
	@$(BIN)/python -m tests.smells
