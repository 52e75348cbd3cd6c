# Needs Python 3.11+, git and make. Everything else is fetched into .venv.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
# -qq: warnings are silent, errors are not.
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt
PINS := pyproject.toml constraints.txt
# Two workers more than there are cores: many tests wait for processes and disks most of their time. Tests that share
# something expensive stay on one worker (tests/support/scheduling.py); the order is that of testpaths.
WORKERS ?= $(shell expr $$(nproc 2>/dev/null || echo 2) + 2)
PYTEST_FLAGS ?= -n $(WORKERS) --dist loadgroup --no-loadscope-reorder
PYTEST := $(BIN)/pytest $(PYTEST_FLAGS)
# Every test process and every `logos` that tests start would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-long fuzz mutants check format man bench bench-trust packages clis venv venv-dev clean

help:
	@echo "make demo       a whole run with scripted agents, no keys needed"
	@echo "make test       check, and the quick tests (under 5 minutes; some need tmux and bubblewrap)"
	@echo "make test-long  the long tests: kill matrices, random walks, all real agent CLIs, more examples"
	@echo "make fuzz       random examples and walks until one fails"
	@echo "make mutants    break the source one clause of the spec at a time; its own tests must notice (ONLY=CYC-04)"
	@echo "make check      lint, format, types, import layers"
	@echo "make format     rewrite the code as 'make check' wants it"
	@echo "make man        write docs/logos.1, the manual page, from the help of the commands"
	@echo "make bench      measure"
	@echo "make bench-trust  agents that cheat and agents that do not: how often a PASS is wrong (ONLY=NAME, ARGS=--json)"
	@echo "make clean      remove the virtual environment and caches"

demo: $(VENV)/.stamp-run
	@$(BIN)/logos demo

# Checked beside the tests, many of which wait for processes; what the check says comes last.
test: $(VENV)/.stamp-dev packages
	@$(BIN)/python tools/agent-clis codex || [ $$? = 3 ]
	@mkdir -p .cache; $(MAKE) --no-print-directory check >.cache/check.log 2>&1 & checking=$$!; \
	$(PYTEST) -m "not long"; tested=$$?; \
	wait $$checking; checked=$$?; cat .cache/check.log; exit $$((tested ? tested : checked))

# Tests with Hypothesis run again, with more examples; all seeds are fixed.
test-long: $(VENV)/.stamp-dev packages clis
	HYPOTHESIS_PROFILE=long $(PYTEST) -m "long or hypothesis"

fuzz: $(VENV)/.stamp-dev
	@while seed=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' '); echo "TORTURE_SEED=$$seed-timed"; \
		HYPOTHESIS_PROFILE=fuzz TORTURE_SEED=$$seed-timed $(PYTEST) -x -m "hypothesis or torture"; do :; done; \
	echo; \
	echo "Found one. Make it a test that every run repeats:"; \
	echo "  Falsifying example: test_name(x=..., y=...)  -> put @example(x=..., y=...) above @given of that test"; \
	echo "  TORTURE_SEED=..., after these steps          -> add the seed to SEEDS in tests/torture/seeds.py"; \
	exit 1

# Not in CI: it takes a quarter of an hour. ONLY="CYC-04 LOG" takes some of the scenarios.
mutants: $(VENV)/.stamp-dev
	@$(BIN)/python tools/mutants.py $(ONLY)

man: $(VENV)/.stamp-dev
	@$(BIN)/python tools/manpage.py docs/logos.1

check: $(VENV)/.stamp-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports

format: $(VENV)/.stamp-dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(VENV)/.stamp-dev
	@$(BIN)/python bench/run.py

bench-trust: $(VENV)/.stamp-dev
	@$(BIN)/python -m bench.trust $(if $(ONLY),--only '$(ONLY)') $(ARGS)

venv: $(VENV)/.stamp-run
venv-dev: $(VENV)/.stamp-dev

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "error: Python 3.11 or newer was not found; name one with PYTHON=..." >&2; exit 1; }
	@echo "creating $(VENV) with $(PYTHON)" >&2
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "error: could not create $(VENV); on Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }

$(VENV)/.stamp-run: $(PINS) | $(BIN)/python
	@echo "installing logos" >&2
	@$(PIP) --editable .
	@touch $@

$(VENV)/.stamp-dev: $(PINS) | $(BIN)/python
	@echo "installing logos with its test tools" >&2
	@$(PIP) --editable '.[dev,cao,web,otel,fleet]'
	@touch $@ $(VENV)/.stamp-run

# Debian packages that tests need, as PROGRAM:PACKAGE, and the tests that are skipped without them.
PACKAGES := tmux:tmux bwrap:bubblewrap chromium:chromium
MISSING = for pair in $(PACKAGES); do command -v $${pair%%:*} >/dev/null || printf '%s ' $${pair\#\#*:}; done

packages:
	@missing=$$($(MISSING)); test -z "$$missing" && exit 0; \
	if command -v apt-get >/dev/null; then \
		if [ "$$(id -u)" = 0 ]; then root=; else root="sudo -n"; fi; \
		echo "installing $$missing" >&2; \
		{ $$root apt-get install -qq -y --no-install-recommends $$missing >/dev/null || \
		  { $$root apt-get update -qq && $$root apt-get install -qq -y --no-install-recommends $$missing >/dev/null; }; } || true; \
	fi; \
	missing=$$($(MISSING)); test -z "$$missing" && exit 0; \
	if [ "$$CI" = true ]; then \
		echo "error: $$missing: missing and could not be installed; CI skips nothing" >&2; exit 1; \
	fi; \
	echo "*******************************************************************" >&2; \
	echo "* Missing, and could not be installed: $$missing" >&2; \
	echo "* Without tmux (3.3 or newer), the tests in tests/live (a real    *" >&2; \
	echo "* agent server) are SKIPPED; without bubblewrap, those of proofs  *" >&2; \
	echo "* in a sandbox.                                                   *" >&2; \
	echo "*******************************************************************" >&2

# The real agent CLIs the live tests drive; where npm cannot be had, these tests say so.
clis: $(VENV)/.stamp-dev
	@$(BIN)/python tools/agent-clis || [ $$? = 3 ]
	@$(BIN)/python tools/js-runners || [ $$? = 3 ]

clean:
	rm -rf $(VENV) .cache build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
