# Everything sets itself up in a local .venv; only python3 (3.11 or newer) and make are needed.
PYTHON ?= python3
BIN := .venv/bin
OLDEST := src/surefoot/policies/solb.py src/surefoot/policies/projection.py src/surefoot/simulation \
    tests/test_package.py tests/test_problem.py tests/analysis tests/reporting tests/storage/test_contract.py \
    tests/storage/test_migrations.py tests/experiments/test_order.py tests/service/test_routes.py \
    tests/service/test_ofrep.py tests/client/test_client.py tests/cli/test_cli.py

.PHONY: demo test test-cuda test-oldest site docs fuzz coverage bench clean

demo: .venv/ready
	$(BIN)/surefoot demo

test: .venv/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 3 --dist loadfile
	$(BIN)/surefoot verify --quick

# the tests that need a GPU of NVIDIA, and how fast it is; `make test` has them on a simulator, with tiny instances
test-cuda: .venv/ready-cuda
	$(BIN)/python -c "from numba import cuda; import sys; sys.exit(None if cuda.is_available() else 'there is no GPU here')"
	$(BIN)/pytest -v tests/cuda
	$(BIN)/python -m benchmarks.cuda agreement
	$(BIN)/python -m benchmarks.cuda rates

# the lowest versions of the dependencies that pyproject.toml allows; kernels are compiled again for that Numba
test-oldest: .venv-oldest/ready
	NUMBA_CACHE_DIR=$(CURDIR)/.venv-oldest/cache .venv-oldest/bin/pytest $(OLDEST)

# the documentation site in build/site; `make docs` shows it, and Ctrl-C ends that
site: .venv/ready-dev
	$(BIN)/python -m website build/pages
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

docs: site
	@echo "the site is at http://127.0.0.1:8001"
	$(BIN)/python -m http.server 8001 --bind 127.0.0.1 --directory build/site

# new random examples on every run, and ten times as many as `make test` has
fuzz: .venv/ready-dev
	HYPOTHESIS_PROFILE=fuzz $(BIN)/pytest tests

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
	rm -rf .venv .venv-oldest build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("surefoot needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[all]"
	touch $@

.venv/ready-dev: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[all,test,lint,docs]"
	touch $@

.venv/ready-cuda: .venv/ready-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[cuda]"
	touch $@

.venv/ready-bench: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[all,bench]"
	touch $@

.venv-oldest/ready: pyproject.toml
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check uv
	.venv-oldest/bin/uv pip install --quiet --python .venv-oldest --only-binary :all: --no-binary surefoot \
	    --resolution lowest-direct --editable ".[all,test]"
	touch $@
