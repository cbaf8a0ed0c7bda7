# Each target sets up what it needs in .venv and is quick the second time.
# `make demo` and `make test` are all a newcomer has to know.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: help demo test test-browser test-deployment lint format bench docs clean
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
$(VENV)/.bench: $(VENV)/.train benchmarks/requirements.txt
	$(PIP) --editable '.[train,report,flower]' --group bench
	$(PIP) --no-deps --requirement benchmarks/requirements.txt
	@touch $@
$(VENV)/.docs: $(VENV)/.core
	$(PIP) --editable '.[report]' --group docs
	@touch $@

demo: $(VENV)/.train ## train under attack with both protections on, and see what happens
	$(BIN)/f2ed run experiments/demo.toml --jobs 2

test: $(VENV)/.dev ## run the tests
	$(BIN)/pytest

test-browser: $(VENV)/.browser ## test the page in Chromium, which is installed where that is allowed
	.ci/chromium
	$(BIN)/pytest tests/browser

test-deployment: $(VENV)/.deployment ## start real processes with TLS and test them (minutes)
	$(BIN)/pytest tests/deployment

lint: $(VENV)/.dev ## style, types and layers
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev ## apply the style
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: $(VENV)/.bench ## measure against the limits of this machine and against peers
	cd benchmarks && for each in estimators dimension secagg simulation leak_meter; do ../$(BIN)/python $$each.py $(BENCH) || exit 1; done

docs: $(VENV)/.docs ## build the documentation into docs/_build/html
	$(BIN)/sphinx-build -W --keep-going -q docs docs/_build/html
	@echo "open docs/_build/html/index.html"

clean: ## forget everything that was set up
	rm -rf $(VENV) docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis
