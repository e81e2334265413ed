# Each target sets up what it needs: a virtual environment in .venv with the
# versions of constraints.txt. Nothing but python3.11+ and make is assumed.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow docs lint pytest clean constraints campaign mutants results results-check accelerators

demo: .venv/installed
	$(BIN)/lowrank-jax demo --out demo-report

# Lint and types keep one core busy; the tests need not wait for them.
test: .venv/installed
	$(MAKE) --no-print-directory --jobs=2 lint pytest

pytest: .venv/installed
	$(BIN)/pytest -m 'not slow'

# The rest: runs from end to end, and tests that compile very much.
test-slow: .venv/installed
	$(BIN)/pytest -m slow

# Damaged inputs, kills, crashes, full disks, extremes: docs/reliability.md.
MINUTES ?= 15
campaign: .venv/installed
	$(BIN)/python -m tests.campaign --minutes $(MINUTES)

# Small faults planted in the core, each with the tests of its module.
mutants: .venv/installed
	$(BIN)/python -m tests.mutants --minutes $(MINUTES)

# All tables and figures at full scale, with their minutes. A stopped run resumes.
results: .venv/installed
	$(BIN)/python -m experiments all --scale full --out docs/results

# All at small scale; fails where a verdict is not the one that is kept.
results-check: .venv/installed
	$(BIN)/python -m experiments check

# Every program compiled for an H100 and a TPU v5e, without either: docs/accelerators.md.
accelerators: .venv-accelerators/installed
	.venv-accelerators/bin/python -m experiments.accelerators --json docs/results/accelerators.json || test $$? -eq 1
	.venv-accelerators/bin/python docs/figures.py

.venv-accelerators/installed: pyproject.toml constraints.txt experiments/accelerators/requirements.txt
	$(PYTHON) -m venv .venv-accelerators
	.venv-accelerators/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --requirement experiments/accelerators/requirements.txt --editable '.[cli]'
	@touch $@

docs: .venv/installed
	$(BIN)/sphinx-build -W --keep-going -q -D run_pages=1 -b html docs docs/_build/html

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "lowrank_jax needs Python 3.11 or newer; $(PYTHON) is " + sys.version.split()[0] + ". Say make PYTHON=python3.12, for example.")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[cli,test,bench,dev,docs]'
	@touch $@

# Renew the pinned versions from what pyproject.toml allows today.
constraints:
	rm -rf .venv
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade --editable '.[cli,test,bench,dev,docs]'
	{ echo "# Versions known to work together; renew with: make constraints"; \
	  $(BIN)/python -m pip freeze --exclude-editable; } > constraints.txt
	@touch .venv/installed

clean:
	rm -rf .venv .venv-accelerators demo-report docs/_build docs/api .pytest_cache .mypy_cache .ruff_cache
