# Everything sets itself up in a local .venv; only python3 (3.11 or newer) and make are needed.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test coverage bench clean

demo: .venv/ready
	$(BIN)/surefoot demo

test: .venv/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest
	$(BIN)/surefoot verify --quick

# Uncompiled, so that every branch is seen; about a hundred times slower, so tests are stopped after two seconds each
# (of their own computing: what `simulate` does on its threads is not stopped, hence the choice of tests).
coverage: .venv/ready-dev
	NUMBA_DISABLE_JIT=1 $(BIN)/coverage run --branch --source=src/surefoot/kernels -m pytest -W ignore::RuntimeWarning \
		--seconds 2 tests/kernels tests/confidence/test_formulas.py tests/policies/test_policies.py \
		tests/policies/test_presets.py tests/contracts -k "not test_registered or strategies_are_strategies"
	$(BIN)/coverage report --show-missing

bench: .venv/ready-dev .venv/ready-bench
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
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
