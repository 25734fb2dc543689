# Two commands: `make demo` trains a tokenizer, `make test` proves the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2> /dev/null)
ifdef UV
MAKE_VENV := $(UV) venv --quiet --seed --python $(PYTHON) $(VENV)
INSTALL := $(UV) pip install --quiet --python $(BIN)/python --compile-bytecode --constraint constraints.txt
else
# Old pip resolves slowly: 23.2 takes 45 CPU seconds, 26 takes 15.
MAKE_VENV := $(PYTHON) -m venv $(VENV) && \
	($(BIN)/python -m pip install -qq --disable-pip-version-check "pip>=26" || true)
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-compile \
	--constraint constraints.txt
# pip compiles 20,000 modules on one core; this uses all cores and skips modules that are hardly ever imported.
MODULES := $(BIN)/python -m compileall -qq -j 0 -x '/(tests?|apprise|databricks|fontTools|mypyc?|posseg|transformers)/' $(VENV)/lib || true
endif

# Which random cases a night makes: those of a day such as 20261122; today's where nothing is said.
SEED ?=
# Where the reliability tests of a night say what they did.
RECORDS ?= .reliability
# Workers take whole files, the longest first (tests/support/longest_first.py).
WORKERS ?= 2
BY_FILE = --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder
# Kernels, by both cores at once, before both workers would compile the same ones.
COMPILE = $(BIN)/python -c "from bpeline.tokenizer_core.warm_up import compile_all; list(compile_all())"
PYTEST = $(BIN)/python -m pytest $(if $(SEED),--seed $(SEED))

.PHONY: types demo test test-nightly test-mutants lint docs release-check bench bench-baseline clean

demo: $(VENV)/installed  ## a tokenizer trained on the Python standard library's own source text
	@echo "training a tokenizer of 8,000 ids on the Python standard library; the first run compiles kernels"
	@$(BIN)/bpeline train --demo

test: $(VENV)/installed-tests  ## what every change is tested by: always the same, in six minutes on two cores
	$(COMPILE)
	$(PYTEST) $(BY_FILE)

test-nightly: $(VENV)/installed-tests  ## everything, then docs/reliability.md anew; ROOM=registry: what guards one room
	$(COMPILE)
	rm -rf $(RECORDS)
	BPELINE_RELIABILITY_RECORDS=$(RECORDS) $(PYTEST) $(BY_FILE) --night $(if $(ROOM),tests/$(ROOM))
	$(if $(ROOM),,$(BIN)/python tests/support/reliability_report.py $(RECORDS) docs/reliability.md)

test-mutants: $(VENV)/installed-tests  ## small deliberate faults, each in a copy: the tests must see them
	$(BIN)/python tests/mutants

lint: $(VENV)/installed-tests types  ## style, and types in strict mode
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/installed-tests types  ## the documentation as a site, in build/site; warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open build/site/index.html"

release-check: $(VENV)/installed-tests  ## wheel, demo, tutorial and fast tests on every Python found, and with the newest versions; an hour
	$(BIN)/python tests/support/release_check.py build/release

types:  # the installed package as links: where mypy and the site find it
	mkdir -p build/types/bpeline
	ln -sfn $(addprefix ../../../,$(wildcard bpeline/*.py*) tokenizer_core registry flows) build/types/bpeline

bench: $(VENV)/installed-tests  ## training and encoding, us and the peers side by side; FILE=corpus.txt
	$(BIN)/python -m benchmarks training $(FILE)
	$(BIN)/python -m benchmarks encoding $(FILE)

bench-baseline: $(VENV)/installed-tests  ## this checkout beside release v0.2.0: CPU ratios; FILE=corpus.txt
	$(BIN)/python -m benchmarks.baseline $(FILE)

$(VENV)/bin/python:
	@echo "creating the virtual environment $(VENV)$(if $(UV), with uv)"
	@$(MAKE_VENV)

$(VENV)/installed: pyproject.toml setup.py constraints.txt | $(VENV)/bin/python
	@echo "installing bpeline and 162 packages, 1.3 GB; a minute or two if none are cached"
	@$(INSTALL) --editable ".[certify]"
	@$(MODULES)
	@touch $@

$(VENV)/installed-tests: pyproject.toml setup.py constraints.txt | $(VENV)/bin/python
	@echo "installing bpeline with everything that its tests use"
	@$(INSTALL) --editable ".[test]"
	@$(MODULES)
	@touch $@ $(VENV)/installed

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
