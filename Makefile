# `make demo` and `make test` start from nothing: they make a virtual environment and install the pinned set.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo setup check test test-long test-browser mutants house bench wheel clean

demo: $(READY)
	@echo "running recipes/swap_index.yaml on the shipped model (under a minute)"
	$(BIN)/steer run recipes/swap_index.yaml

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@echo "making a virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@echo "installing the pinned set into it (PyTorch is large: some minutes the first time)"
	@$(BIN)/pip install --disable-pip-version-check --progress-bar off --constraint constraints.txt --editable '.[dev]'
	@touch $@

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: check
	$(BIN)/pytest --numprocesses 2 --dist worksteal

test-long: $(READY)
	$(BIN)/pytest -m long

test-browser: $(READY)  # needs Debian's chromium and chromium-driver; says so where they are not there
	@command -v chromedriver > /dev/null || apt-get install -y --no-install-recommends chromium chromium-driver || true
	$(BIN)/pytest -m browser -rs tests/paper/test_browser.py

mutants: $(READY)
	$(BIN)/python tests/mutants/plant.py --jobs 2

house: $(READY)
	$(BIN)/python docs/house.py

bench: $(READY)
	@echo "training steps, three sweeps, growth and memory: about four minutes on two free cores"
	$(BIN)/python benchmarks/train.py
	$(BIN)/python benchmarks/sweep.py

wheel: $(READY)
	$(BIN)/python -m build --wheel --no-isolation

clean:
	rm -rf $(VENV) build dist results .mypy_cache .ruff_cache .pytest_cache .hypothesis
