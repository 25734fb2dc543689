# Two commands: `make demo` trains a tokenizer, `make test` proves the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Of what `make test-nightly` does: texts cut and texts encoded; thousands of kills; of how many
# requests one gets a fault; corpora; how many times as many cases of the other suites of reliability.
TEXTS ?= 5000000
ENCODED ?= 10000000
KILLS ?= 10
STRIDE ?= 1
CORPORA ?= 2000000
NIGHTLY ?= 2
CASES ?= 1
RECORDS ?= .reliability
# Two workers take whole files, the longest first (tests/support/longest_first.py).
BY_FILE := --numprocesses 2 --dist loadfile --no-loadscope-reorder
# Kernels, by both cores at once, before both workers would compile the same ones.
COMPILE = $(BIN)/python -c "from tokenizer_core.warm_up import compile_all; list(compile_all())"
SEED ?= $(shell date +%Y%m%d)

.PHONY: demo test test-fast test-nightly test-crash test-mutants lint bench clean

demo: $(VENV)/installed  ## a tokenizer trained on the Python standard library's own source text
	$(BIN)/bpeline train --demo

test: $(VENV)/installed-tests  ## every test, with the independent libraries they compare against
	$(COMPILE)
	$(BIN)/python -m pytest $(BY_FILE)

test-fast: $(VENV)/installed-tests  ## without the tests that start servers or take long
	$(BIN)/python -m pytest -m "not slow and not server"

test-nightly: $(VENV)/installed-tests  ## other cases every day: SEED=which, TEXTS, KILLS and CORPORA=how many
	$(COMPILE)
	$(BIN)/python -m pytest --numprocesses 2 -m slow tests/tokenizer_core/test_split_differential.py \
		--texts $(TEXTS) --seed $(SEED)
	$(BIN)/python -m pytest --numprocesses 2 -m slow tests/tokenizer_core/test_formats_fuzz.py \
		--texts $(ENCODED) --seed $(SEED)
	$(BIN)/python -m pytest --numprocesses 2 tests/reliability/test_random_kills.py \
		--cases $(KILLS) --seed $(SEED)
	$(BIN)/python -m pytest --numprocesses 2 tests/registry/test_lost_replies.py \
		tests/tokenizer_core/test_training_differential.py \
		--stride $(STRIDE) --corpora $(CORPORA) --seed $(SEED)
	$(BIN)/python -m pytest $(BY_FILE) tests/reliability \
		--ignore tests/reliability/test_random_kills.py --cases $(NIGHTLY) --seed $(SEED)

test-crash: $(VENV)/installed-tests  ## killed, failing and damaged disks; CASES=how many times as many, RECORDS=folder
	BPELINE_RELIABILITY_RECORDS=$(RECORDS) $(BIN)/python -m pytest $(BY_FILE) \
		tests/reliability --cases $(CASES) --seed $(SEED)
	$(BIN)/python tests/support/reliability_report.py $(RECORDS) docs/reliability.md

test-mutants: $(VENV)/installed-tests  ## small deliberate faults, one by one: the tests must see them
	$(BIN)/python tests/mutants

lint: $(VENV)/installed-tests  ## style, and types in strict mode
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/installed-tests  ## training and encoding, us and the peers side by side; FILE=corpus.txt
	$(BIN)/python -m benchmarks $(FILE)
	$(BIN)/python -m benchmarks.encoding $(FILE)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) --editable .
	@touch $@

$(VENV)/installed-tests: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) --editable ".[test]"
	@touch $@ $(VENV)/installed

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
