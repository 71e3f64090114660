# Two commands set everything up on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: run serve install test fast lint docs site notebooks package clean

run: $(VENV)/.installed
	$(BIN)/fscil run --resume

serve: $(VENV)/.installed-web
	$(BIN)/fscil serve --demo --open

install: $(VENV)/.installed-dev

# Files go to the two workers whole, the longest first (tests/conftest.py), so that nothing is prepared twice.
test: $(VENV)/.installed-dev lint
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

# The quick half: what a change most likely breaks, in a little over two minutes.
fast: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow"

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check src tests benchmarks docs_maker examples packages
	$(BIN)/ruff format --check src tests benchmarks docs_maker examples packages
	$(BIN)/mypy

# Everything under docs that is computed, from the files under results and the paper's tables; and the site, made of it.
docs: $(VENV)/.installed-dev
	$(BIN)/python -m docs_maker docs results
	$(BIN)/python conformance/generate.py
	$(MAKE) site

# Into build/site, as it stands: a link that leads nowhere is an error. To look at it: python -m http.server -d build/site
site: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

# Runs the notebooks of examples/ and stores what they print and draw.
notebooks: $(VENV)/.installed-dev
	$(BIN)/python -m docs_maker.notebooks

# What is released: wheels and source distributions in dist/, checked.
package: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet -e '.[package]'
	$(BIN)/python packages/release.py

# pip says what it downloads: on Linux torch brings CUDA, gigabytes of it, and silence would look like a fault.
$(VENV)/.installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV): minutes, and on Linux about 6 GB, unless a torch without CUDA is there (see README.md)."
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install -e .
	touch $@

$(VENV)/.installed-web: $(VENV)/.installed
	@echo "Installing what the page needs."
	$(BIN)/python -m pip install -e '.[web,onnx,photos,heic]'
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "Installing what the tests need."
	$(BIN)/python -m pip install -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) runs build .pytest_cache .mypy_cache .ruff_cache .hypothesis
