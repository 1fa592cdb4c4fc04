# Two commands do everything on a fresh machine: `make sweep` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MINOR := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
LOCK := requirements/py$(MINOR).txt
STATE ?= .sweeps
RUNS ?= 5
SGLANG := .sglang-cpu
# Every test starts many Pythons: without its bytecode each would compile all packages anew.
unexport PYTHONDONTWRITEBYTECODE
# A module's tests share servers, so that they stay together. Slow modules go in the order of their
# folders: the longest come first, whatever the number of their tests.
SPREAD := --dist loadfile
# Slow tests also wait, for servers and for deadlines: three of them share two cores.
SLOW_WORKERS := $(shell $(PYTHON) -c 'import os; print((3 * len(os.sched_getaffinity(0)) + 1) // 2)')

.PHONY: setup sweep sweep-real sglang test test-busy coverage check lint types fast bench bench-quick mutants lock clean
.DEFAULT_GOAL := check

setup: $(VENV)/.done

# Wheels alone: a source distribution runs a program of its own as it is built.
$(VENV)/.done: $(LOCK) requirements/bootstrap.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --require-hashes -r requirements/bootstrap.txt
	$(BIN)/uv pip sync --quiet --python $(BIN)/python --no-build --require-hashes $(LOCK)
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@

$(LOCK):
	@echo "There is no lock file for Python $(MINOR); use 3.11 or 3.12 (PYTHON=python3.11 make ...)." >&2
	@exit 2

sweep: setup
	$(BIN)/python -m orchestrator sweep search_spaces/ngram.py --state-dir $(STATE)

sweep-real: sglang
	$(BIN)/python -m orchestrator sweep search_spaces/cpu_tiny.py --state-dir $(STATE)

# SGLang is built beside the types, which take one core alone.
test: setup
	$(MAKE) --no-print-directory -j2 lint types sglang fast
	$(BIN)/python -m pytest -m slow -n $(SLOW_WORKERS) $(SPREAD) --no-loadscope-reorder --durations=15

# The slow tests RUNS times, shuffled, beside a busy loop for each core. Interrupted, it goes on.
test-busy: sglang
	$(BIN)/python -m tests.busy --runs $(RUNS) -- -n $(SLOW_WORKERS) $(SPREAD) --no-loadscope-reorder

sglang: setup
	$(BIN)/python -m infra.sglang_cpu.build --env $(SGLANG)/env --model $(SGLANG)/model

# The fast tests alone, and what they cover of each package.
coverage: setup
	$(BIN)/python -m pytest -m "not slow" -n auto $(SPREAD) --cov=sweeps --cov=infra --cov=orchestrator \
		--cov=search_spaces --cov-report=json:$(VENV)/coverage.json
	$(BIN)/python -m tests.packages_covered $(VENV)/coverage.json

# Without its cache mypy takes half a minute of one core: the tests begin beside it.
check: setup
	$(MAKE) --no-print-directory -j2 lint types fast

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: setup
	$(BIN)/mypy

fast: setup
	$(BIN)/python -m pytest -m "not slow" -n auto $(SPREAD)

bench: setup
	for program in bench/*.py; do $(BIN)/python $$program || exit 1; done

# The quick form of each, as `make test` runs it; and what becomes of one that is killed.
bench-quick: sglang
	$(BIN)/python -m pytest tests/bench -m slow -n $(SLOW_WORKERS) $(SPREAD) --no-loadscope-reorder

# Small changes to modules that must be right: which of them does a test notice? Goes on when it is run again.
mutants: setup
	$(BIN)/python -m tests.mutants

# New pins: change pyproject.toml, then `make lock`.
lock: setup
	for minor in 3.11 3.12; do \
		$(BIN)/uv pip compile --quiet --universal --no-build --generate-hashes --no-emit-index-url --no-header \
			--extra test --python-version $$minor pyproject.toml requirements/build.in \
			--output-file requirements/py$$minor.txt || exit 1; \
	done
	echo uv | $(BIN)/uv pip compile --quiet --no-build --generate-hashes --no-emit-index-url --no-header \
		--output-file requirements/bootstrap.txt -

clean:
	-test ! -x $(BIN)/python || $(BIN)/python -m orchestrator clean --state-dir $(STATE)
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .busy bench/out
