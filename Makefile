# The commands of kgen's developers. Every target prepares what it needs by itself (.ci/setup).
#
# PYTHON  the Python to use (default: the active environment's, else python3). If it lies in a
#         virtual environment, that environment is used; otherwise .venv is made from it.
# JOBS    how many test processes run at once (default: one per core).

PYTHON ?= $(if $(VIRTUAL_ENV),$(VIRTUAL_ENV)/bin/python,python3)
JOBS ?= auto
BUILD ?= specs/builds/smollm2.yaml
ARGS ?=

VENV := $(shell $(PYTHON) -c 'import sys; print(sys.prefix if sys.prefix != sys.base_prefix else ".venv")' 2>/dev/null || echo .venv)
PY := $(VENV)/bin/python
PYTEST := $(PY) -m pytest -n $(JOBS) --maxprocesses 8
CLANG_FORMAT := $(PY) -c 'import clang_format; clang_format.clang_format()'
HEADERS = $(shell find templates/include tests -name '*.hpp' -o -name '*.h')

.PHONY: help setup run test test-full lint format generated bench clean
.DEFAULT_GOAL := help

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: PREPARE = demo
run: setup  ## build kernels for a small language model, check them, and chat with it in several sessions
	@$(PY) -m kgen demo --build $(BUILD) $(ARGS)

test: setup  ## run the tests, without those marked slow
	@$(PYTEST) -m "not slow" $(ARGS)

test-full: setup  ## run every test
	@$(PYTEST) $(ARGS)

lint: setup  ## ruff, mypy --strict, clang-format
	@$(PY) -m ruff check
	@$(PY) -m ruff format --check
	@$(PY) -m mypy
	@$(if $(HEADERS),$(CLANG_FORMAT) --dry-run -Werror $(HEADERS))

format: setup  ## rewrite the code in the project's style
	@$(PY) -m ruff check --fix
	@$(PY) -m ruff format
	@$(if $(HEADERS),$(CLANG_FORMAT) -i $(HEADERS))

generated: setup  ## expand specs/builds/golden.yaml into generated/
	@$(PY) -m kgen render specs/builds/golden.yaml --out generated

bench: setup  ## measure the decode kernels against their ceilings and against torch
	@$(PY) -m kgen bench decode $(ARGS)

clean: setup  ## remove kgen's cache and the tools' caches (keeps .venv)
	@$(PY) -m kgen clean
	@rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis dist

setup:
	@.ci/setup "$(PYTHON)" "$(VENV)" $(PREPARE)
