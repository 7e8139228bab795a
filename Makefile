# Weir. `make help` lists what there is.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

PYTHON ?= python3
VENV := .venv
TRITON_VENV := .venv-triton
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)

.PHONY: help setup setup-dev run test check bench lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(UV):
	$(PYTHON) -m venv .uv && .uv/bin/pip install -q uv

$(VENV)/.runtime: requirements/weir.txt | $(UV)
	[ -x $(BIN)/python ] || $(UV) venv -q --python 3.11 $(VENV) || $(UV) venv -q $(VENV)
	$(UV) pip install -q --python $(BIN)/python -r requirements/weir.txt
	touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.runtime
	$(UV) pip install -q --python $(BIN)/python -r requirements/dev.txt
	touch $@

$(TRITON_VENV)/.triton: requirements/triton.txt | $(UV)
	[ -x $(TRITON_VENV)/bin/python ] || $(UV) venv -q --python 3.11 $(TRITON_VENV)
	$(UV) pip install -q --python $(TRITON_VENV)/bin/python -r requirements/triton.txt
	touch $@

setup: $(VENV)/.runtime $(TRITON_VENV)/.triton
setup-dev: setup $(VENV)/.dev

lock: | $(UV) ## resolve pyproject.toml again into requirements/*.txt
	$(UV) pip compile -q -U --universal --python-version 3.11 --generate-hashes --no-header --no-annotate pyproject.toml -o requirements/weir.txt
	$(UV) pip compile -q -U --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -c requirements/weir.txt --group dev pyproject.toml -o requirements/dev.txt
	$(UV) pip compile -q -U --python-version 3.11 --generate-hashes --no-header --no-annotate --group triton -o requirements/triton.txt
