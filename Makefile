# Every target sets up what it needs; only Python 3.11+, its venv module and make have to be there.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
LINTED := build/lint

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint bench groundtruth picture clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[collect,dev]'
	@touch $@

setup: $(READY)  ## create .venv with everything that tests and demo need

demo: $(READY)  ## train two ranks with a planted fault, profile them, write demo/report.html
	rm -rf demo
	$(BIN)/stepscope demo --out demo

test: $(READY)  ## run all tests (PYTEST_ARGS="-k sweep" narrows them)
	$(BIN)/python -m pytest -n 2 -m 'not alone' $(PYTEST_ARGS) || [ $$? -eq 5 ]
	$(BIN)/python -m pytest -m alone $(PYTEST_ARGS) || [ $$? -eq 5 ]

lint: $(READY)  ## ruff, mypy on the installed package, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build && $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(LINTED) .
	MYPYPATH=$(LINTED) $(BIN)/mypy --python-executable $(BIN)/python -p stepscope
	cd $(LINTED) && PYTHONPATH=. $(abspath $(BIN))/lint-imports $(CURDIR)/pyproject.toml --no-cache

bench: $(READY)  ## measure ratios against peers side by side; results go to benchmarks/results/
	$(BIN)/python -m benchmarks

groundtruth: $(READY)  ## run the experiments with planted causes (wants a quiet machine); tables go to docs/accuracy/
	$(BIN)/python -m benchmarks.groundtruth.data_loading --write docs/accuracy/data-loading.md
	$(BIN)/python -m benchmarks.groundtruth.communication --write docs/accuracy/communication.md
	$(BIN)/python -m benchmarks.groundtruth.memory --write docs/accuracy/memory.md

picture: $(READY)  ## make the README's picture from the demo's report
	test -e demo/report.html || $(BIN)/stepscope demo --out demo
	$(BIN)/python docs/picture.py demo/report.html docs/report.png

clean:  ## remove what the targets made
	rm -rf $(VENV) build demo .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
