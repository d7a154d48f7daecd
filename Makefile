# `make demo` and `make test` start from nothing: they make a virtual environment and install the pinned set.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo setup check test test-long mutants bench wheel clean

demo: $(READY)
	$(BIN)/steer run recipes/swap_index.yaml

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: check
	$(BIN)/pytest --numprocesses 2 --dist worksteal

test-long: $(READY)
	$(BIN)/pytest -m long

mutants: $(READY)
	$(BIN)/python tests/mutants/plant.py --jobs 2

bench: $(READY)
	$(BIN)/python benchmarks/train.py
	$(BIN)/python benchmarks/sweep.py

wheel: $(READY)
	$(BIN)/python -m build --wheel --no-isolation

clean:
	rm -rf $(VENV) build dist results .mypy_cache .ruff_cache .pytest_cache .hypothesis
