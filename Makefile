# Two commands set everything up on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: run serve test lint clean

run: $(VENV)/.installed
	$(BIN)/fscil run --resume

serve: $(VENV)/.installed-web
	$(BIN)/fscil serve --demo --open

test: $(VENV)/.installed-dev lint
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy

$(VENV)/.installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e .
	touch $@

$(VENV)/.installed-web: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet -e '.[web,onnx]'
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
