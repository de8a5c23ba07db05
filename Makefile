# Everything sets itself up in a local .venv; only python3 (3.11 or newer) and make are needed.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test bench clean

demo: .venv/ready
	$(BIN)/surefoot demo

test: .venv/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest
	$(BIN)/surefoot verify --quick

bench: .venv/ready-dev .venv/ready-bench
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("surefoot needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

.venv/ready-dev: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test,lint]"
	touch $@

.venv/ready-bench: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[bench]"
	touch $@
