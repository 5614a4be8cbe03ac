# The day's work. `make demo` and `make test` need nothing but Python >= 3.11, a C compiler and make.

# The first of these that runs and is new enough: a name on the PATH may be only a version manager's promise.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VENV := .venv
BIN := $(VENV)/bin
NATIVE := $(wildcard native/*.c native/*.h native/*.py)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help setup demo test check format soak fuzz bench docs dist clean

help: ## list the verbs
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

# One stamp for each set of extras; a changed C file or project file installs again.
$(VENV)/.demo: $(BIN)/python pyproject.toml setup.py $(NATIVE)
	$(INSTALL) --editable '.[node]'
	@touch $@

$(VENV)/.test: $(BIN)/python pyproject.toml setup.py $(NATIVE)
	$(INSTALL) --editable '.[test]'
	-$(BIN)/python tests/deploy/get_kube_tools.py $(BIN) # elsewhere than on amd64 those tests are passed over
	@touch $@ $(VENV)/.demo

$(VENV)/.dev: $(VENV)/.test
	$(INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/.test $(VENV)/.demo

$(VENV)/.bench: $(VENV)/.test
	$(INSTALL) --editable '.[bench]'
	@touch $@ $(VENV)/.test $(VENV)/.demo

setup: $(VENV)/.dev ## an environment with everything for development

demo: $(VENV)/.demo ## a small node of simulated containers, read, measured and steered
	$(BIN)/hami-cache demo

test: $(VENV)/.test ## the test suite, on all cores
	$(BIN)/python -m pytest -n auto --dist worksteal

check: $(VENV)/.dev ## ruff, mypy --strict, generated files fresh, C warnings as errors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m hami_cache.toolkit.markdown --check
	$(BIN)/python -m hami_cache.cli.reference_page --check
	$(BIN)/python -m hami_cache.cli.json_page --check
	$(CC) -std=c11 -O2 -Wall -Wextra -Werror -fsyntax-only native/*.c native/testing/*.c

format: $(VENV)/.dev ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

soak: $(VENV)/.test ## the stress tests, for minutes instead of seconds
	HAMI_CACHE_SOAK=1 $(BIN)/python -m pytest -m soak --timeout 3600

fuzz: $(VENV)/.test ## sanitizer builds of the C code, and longer property tests
	HAMI_CACHE_FUZZ=1 $(BIN)/python -m pytest -m fuzz --timeout 3600

bench: $(VENV)/.bench ## measure against the peers; writes docs/benchmarks.md
	$(BIN)/python -m benchmarks.report

docs: $(VENV)/.dev ## write the generated pages, and build the site into site/
	$(BIN)/python -m hami_cache.toolkit.markdown
	$(BIN)/python -m hami_cache.cli.reference_page
	$(BIN)/python -m hami_cache.cli.json_page
	$(BIN)/python -m sphinx -nW --keep-going -q docs site

dist: $(VENV)/.dev ## sdist and wheel
	$(BIN)/python -m build

clean: ## remove everything that was built
	rm -rf $(VENV) build dist *.egg-info hami_cache/*.so native/_reader.c .pytest_cache .mypy_cache .ruff_cache .demo
