# Two commands do everything on a machine with Python 3.11+, pip and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test lint unit coverage faults up stress chaos kills soak outages fuzz browser peers docs readme clean

demo: $(VENV)/.user  ## evaluate the quickstart dataset and print the report
	@$(BIN)/ragassay demo

test: lint unit  ## lint, types, imports, then all tests

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/prose.py
	$(BIN)/python scripts/reference.py --check

unit: $(VENV)/.dev
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --durations=25

# Whole processes, simulations and times: tracing makes each several times slower, and changes what is measured.
UNTRACED := tests/service tests/benchmark tests/test_readme.py tests/test_embeddings.py tests/stats/test_coverage.py \
	tests/schedules/test_400_days.py tests/cli/test_kill.py tests/cli/test_resume.py \
	tests/dashboard/test_browser.py tests/test_quality.py tests/storage/test_row_index.py tests/test_notebooks.py \
	tests/evaluation tests/api/test_openapi.py tests/cli/test_ab.py tests/test_observability.py tests/test_packaging.py

coverage: $(VENV)/.dev  ## lines and branches that tests within one process reach: 90 % at least
	rm -f .coverage .coverage.*
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --cov --cov-report=term --cov-fail-under=90 $(UNTRACED:%=--ignore=%)

faults: $(VENV)/.dev  ## planted faults, each of which a test has to find: half an hour
	$(BIN)/python scripts/faults.py

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.user: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) --editable '.[all,dev]'
	@touch $@ $(VENV)/.user

clean:
	rm -rf $(VENV) build dist .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache

up: $(VENV)/.dev  ## Redis, API, worker and beat on this machine; Ctrl-C ends them
	$(BIN)/ragassay serve

stress: chaos kills outages fuzz soak  ## the long forms of the tests, one after the other: two hours with the defaults

chaos: $(VENV)/.dev  ## kills at every step of jobs for MINUTES, drawn by SEED, and a table; make test has a minute of it
	PYTHONPATH=tests $(BIN)/python -m service.chaos_run --seed $(or $(SEED),1) --minutes $(or $(MINUTES),5)

kills: $(VENV)/.dev  ## ragassay evaluate killed KILLS times at random, with what was lost, repeated and billed; make test has 2
	KILLS=$(or $(KILLS),30) $(BIN)/python -m pytest -s --timeout 3600 tests/cli/test_kill.py

soak: $(VENV)/.dev  ## MINUTES of ordinary work; what memory and Redis keep of it
	PYTHONPATH=tests $(BIN)/python -m service.soak_run --minutes $(or $(MINUTES),45)

outages: $(VENV)/.dev  ## providers that fail for two minutes; make test has the short form
	OUTAGE_S=$${OUTAGE_S:-120} $(BIN)/python -m pytest tests/service/test_service.py -k outage

fuzz: $(VENV)/.dev  ## thousands of generated requests to the API, in all of Schemathesis's phases; make test has the short form
	FUZZ_CASES=$${FUZZ_CASES:-5000} $(BIN)/python -m pytest -s tests/api/test_openapi.py -k generated

browser: $(VENV)/.dev  ## every page in Chromium, wide and narrow, light and dark
	$(BIN)/python -m pytest -n 2 tests/dashboard/test_browser.py

TOOLS := $(VENV)/integrations

$(TOOLS)/.ready: tests/integrations/requirements.txt pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m venv $(TOOLS)
	$(TOOLS)/bin/pip install --quiet --disable-pip-version-check --requirement tests/integrations/requirements.txt --editable .
	@touch $@

peers: $(TOOLS)/.ready  ## MLflow, W&B, LangChain, LlamaIndex as they are, in an environment of 1.4 GB; make test has the short form
	$(TOOLS)/bin/python -m pytest -o filterwarnings=default tests/integrations/real_*.py

docs: $(VENV)/.dev  ## the documentation as a site with a search, into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "look at it by: $(BIN)/python -m http.server --directory build/site"

readme: $(VENV)/.user  ## put what the commands print now into README.md and the pages
	$(BIN)/python scripts/reference.py
	$(BIN)/python scripts/refresh_pages.py
