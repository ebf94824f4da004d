# Every target sets up what it needs: a virtual environment from the lock file (with a NATS server), and Java for Spark.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WARM := $(VENV)/.warm
BENCHES := adaptation aggregates delivery endurance kernels network streams
FIGURES := adaptation dissemination placement providers weaving
export PYTHONHASHSEED := 0

.PHONY: demo test lint types pure spark prove bench lab venv lock clean

demo: venv
	@$(BIN)/weft demo

test: lint types pure spark

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: venv
	$(BIN)/mypy

pure: venv
	$(BIN)/pytest -q -m "not spark and not prove" --numprocesses auto --dist worksteal

spark: $(WARM)
	$(BIN)/pytest -q -m "spark and not prove" --numprocesses 2 --dist worksteal

prove: $(WARM)
	$(BIN)/pytest -q -m prove

bench: $(WARM)
	@for name in $(BENCHES); do $(BIN)/python -m bench.$$name || exit 1; done

# The figures of the sources, recomputed by the laboratory.
lab: $(WARM)
	@for name in $(FIGURES); do $(BIN)/python -m lab.figures.$$name || exit 1; done

venv: $(READY)
	@scripts/find-java

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "weft needs Python 3.11 or newer: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "setting up $(VENV) (the first time takes a minute or two: Spark is large)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

# Where many processes start Spark it pays to compile and to archive first. All works without it.
$(WARM): $(READY)
	@scripts/find-java
	-@$(BIN)/weft warm-up
	@touch $@

# Renews requirements.lock from pyproject.toml; commit the result.
lock:
	@$(PYTHON) -m venv $(VENV)-lock
	@$(VENV)-lock/bin/pip install --quiet -e '.[demo,dev]'
	@$(VENV)-lock/bin/pip freeze --exclude-editable > requirements.lock
	@rm -rf $(VENV)-lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
