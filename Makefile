# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test parity proof lint clean

demo: $(VENV)/.run
	$(BIN)/pilotfish demo

test: $(VENV)/.dev lint
	$(BIN)/python -m pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# What needs PyTorch and transformers: parity with the reference implementation.
parity: $(VENV)/.parity
	$(BIN)/python -m pytest tests/parity -o addopts=-q

# The long audits and benchmarks behind the figures in README and docs: about an hour on 2 idle cores.
# PROMPTS names further prompt files to benchmark: make proof PROMPTS="a.jsonl b.jsonl"
proof: $(VENV)/.dev
	mkdir -p docs/results
	$(BIN)/pilotfish bench --json > docs/results/bench.json
	for file in $(PROMPTS); do \
	  $(BIN)/pilotfish bench --prompts $$file --first-turn --json > docs/results/$$(basename $$file .jsonl).json; done
	$(BIN)/pilotfish bench --step-times docs/step-times.png --measure
	$(BIN)/pilotfish bench --steps --json > docs/results/steps.json
	$(BIN)/pilotfish bench --perplexity --json > docs/results/perplexity.json
	$(BIN)/pilotfish audit --full --json > docs/results/audit.json

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pilotfish needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

# The last step of the set-up fetches the embedded model and proves this machine's exact form, once.
$(VENV)/.run: $(VENV)/bin/python constraints.txt pyproject.toml
	$(PIP) -c constraints.txt -e .
	$(BIN)/python -c 'from pilotfish.model.load import ModelOptions, load; load(ModelOptions(), print, lasting=True)'
	touch $@

$(VENV)/.dev: $(VENV)/.run
	$(PIP) -c constraints.txt -e '.[dev]'
	touch $@

$(VENV)/.parity: $(VENV)/.dev
	$(PIP) -c constraints.txt -e '.[dev,parity]'
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info
