# Two commands set everything up on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: run serve install test fast lint docs package clean

run: $(VENV)/.installed
	$(BIN)/fscil run --resume

serve: $(VENV)/.installed-web
	$(BIN)/fscil serve --demo --open

install: $(VENV)/.installed-dev

# Files go to the two workers whole, the longest first (tests/conftest.py), so that nothing is prepared twice.
test: $(VENV)/.installed-dev lint
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

# The quick half: what a change most likely breaks, in under 90 seconds.
fast: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow"

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check src tests benchmarks docs_maker packages
	$(BIN)/ruff format --check src tests benchmarks docs_maker packages
	$(BIN)/mypy

# Everything under docs that is computed, from the files under results and the paper's tables.
docs: $(VENV)/.installed-dev
	$(BIN)/python -m docs_maker docs results
	$(BIN)/python conformance/generate.py

# What is released: wheels and source distributions in dist/, checked.
package: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet -e '.[package]'
	$(BIN)/python packages/release.py

$(VENV)/.installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e .
	touch $@

$(VENV)/.installed-web: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet -e '.[web,onnx,photos,heic]'
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
