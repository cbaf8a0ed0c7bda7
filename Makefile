# Each target sets up what it needs in .venv and is quick the second time.
# `make demo` and `make test` are all a newcomer has to know.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: help demo test test-browser test-deployment soak test-gpu test-nightly mutants lint style types layers format hooks bench docs release-check clean
help:
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit("f2ed needs Python 3.11 or newer; name one: make PYTHON=python3.12 …" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/pip
	$(PIP) --editable '.[cli]'
	@touch $@
$(VENV)/.train: $(VENV)/.core
	$(PIP) --editable '.[train,report]'
	@touch $@
$(VENV)/.dev: $(VENV)/.train
	$(PIP) --editable '.[train,report,flower]' --group dev
	@touch $@
$(VENV)/.browser: $(VENV)/.dev
	$(PIP) --group browser
	@touch $@
$(VENV)/.deployment: $(VENV)/.dev
	$(PIP) 'flwr[simulation]==1.41.0'
	@touch $@
$(VENV)/.integrations: $(VENV)/.dev
	$(PIP) --group integrations
	@touch $@
$(VENV)/.bench: $(VENV)/.train benchmarks/requirements.txt
	$(PIP) --editable '.[train,report,flower]' --group bench
	$(PIP) --no-deps --requirement benchmarks/requirements.txt
	@touch $@
# The API reference imports every package, so it needs torch and flwr as well.
$(VENV)/.docs: $(VENV)/.dev
	$(PIP) --group docs
	@touch $@
$(VENV)/.release: $(VENV)/.core
	$(PIP) --group release
	@touch $@
$(VENV)/.hooks: $(VENV)/.dev
	$(PIP) --group hooks
	@touch $@

demo: $(VENV)/.train ## train under attack with both protections on, and show what each defense lets through
	$(BIN)/f2ed run experiments/demo.toml --jobs 2

test: $(VENV)/.dev ## run the tests, two processes side by side
	$(BIN)/pytest -n 2

test-browser: $(VENV)/.browser ## test the report page in Chromium (installed where that is allowed)
	.ci/chromium
	$(BIN)/pytest tests/browser

test-deployment: $(VENV)/.deployment ## start real processes with TLS and test them (minutes)
	$(BIN)/pytest tests/real_deployment

soak: $(VENV)/.deployment ## 30 real nodes under kill -9, wrong clocks, full disks and new rosters; SOAK='--nodes 8 --shards 2 --seed 7'
	$(BIN)/python -m tests.real_deployment.chaos.soak $(SOAK)

test-gpu: $(VENV)/.dev ## run the tests that need a GPU (they are skipped without one)
	$(BIN)/pytest tests/learning/fast tests/estimators/test_on_gpu.py

test-nightly: $(VENV)/.deployment $(VENV)/.integrations ## run what is too slow for every change, and every deployment test
	$(BIN)/pytest -m nightly || [ $$? -eq 5 ] # 5: none outside that folder
	$(BIN)/pytest -m '' tests/real_deployment
	$(BIN)/pytest tests/report/test_sinks.py tests/learning/test_other_libraries.py # with what only the night installs

# In an environment of its own: the tests run against a copy of the source.
mutants: pyproject.toml ## change the security code in small ways, and show which changes no test notices
	$(PYTHON) -m venv .venv-mutants
	.venv-mutants/bin/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	.venv-mutants/bin/pip install --quiet --disable-pip-version-check --editable '.[flower,dp]' --group mutants
	.venv-mutants/bin/python scripts/mutants/run.py $(MUTANTS)

lint: style types layers ## style, types and layers

style: $(VENV)/.dev ## check formatting and lint rules
	$(BIN)/ruff format --check
	$(BIN)/ruff check

types: $(VENV)/.dev ## check types (mypy --strict)
	$(BIN)/mypy

layers: $(VENV)/.dev ## check that imports go one way
	$(BIN)/lint-imports

format: $(VENV)/.dev ## apply the style
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

hooks: $(VENV)/.hooks ## run style, types and layers before every commit
	$(BIN)/pre-commit install

bench: $(VENV)/.bench ## measure against the limits of this machine and against peers
	cd benchmarks && for each in estimators dimension secagg simulation leak_meter; do ../$(BIN)/python $$each.py $(BENCH) || exit 1; done

docs: $(VENV)/.docs ## build the documentation into docs/_build/html
	$(BIN)/sphinx-build -W --keep-going -q docs docs/_build/html
	@echo "open docs/_build/html/index.html"

release-check: $(VENV)/.release ## build, install the wheel in a clean environment, run the README's commands
	$(BIN)/python scripts/release_check/check.py

clean: ## remove everything that was set up or built
	rm -rf $(VENV) .venv-mutants mutants dist docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
