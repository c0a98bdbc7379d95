# make demo, make test, make test-beam, make lint, make clean.
#
# What they need is installed into .venv, under the first Python 3.10, 3.11 or 3.12
# found; `make demo PYTHON=/path/to/python3.12` takes another one.

VENV = .venv
BIN = $(VENV)/bin
# Of its own, since Beam's requirements need not go with TensorFlow's.
BEAM_VENV = $(VENV)-beam
PYTHON = python3 python3.12 python3.11 python3.10
PIP_INSTALL = -m pip install --disable-pip-version-check --prefer-binary
# Two test files at a time: most tests keep one core busy, tracing graphs.
PYTEST_FLAGS = -n 2 --dist loadfile

SUITABLE = import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info < (3, 13))

.PHONY: demo test test-beam lint clean
# Two pips in one environment get in each other's way.
.NOTPARALLEL:

demo: $(VENV)/requirements
	$(BIN)/python -m demo

test: $(VENV)/requirements-dev
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

test-beam: $(BEAM_VENV)/requirements
	$(BEAM_VENV)/bin/python -m pytest tests/test_beam_pipeline.py

lint: $(VENV)/requirements-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

clean:
	rm -rf $(VENV) $(BEAM_VENV) demo_output .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python $(BEAM_VENV)/bin/python:
	@for python in $(PYTHON); do \
	  if $$python -c '$(SUITABLE)' 2>/dev/null; then \
	    echo "$(@:/bin/python=): made with $$($$python --version), $$python"; \
	    exec $$python -m venv --clear $(@:/bin/python=); \
	  fi; \
	  version=$$($$python --version 2>/dev/null) && found="$${found:+$$found, }$$python ($$version)"; \
	done; \
	echo "error: expected Python 3.10, 3.11 or 3.12 with its modules venv and" \
	  "ensurepip (on Debian and Ubuntu the package python3-venv), found" \
	  "$${found:-none of $(PYTHON)}; give another one: PYTHON=/path/to/python3.12" >&2; \
	exit 1

# Empty files that say which requirements are installed.
$(VENV)/requirements: requirements.txt | $(BIN)/python
	@echo "Installing requirements.txt: 700 MB, a minute or more"
	$(BIN)/python $(PIP_INSTALL) -r $<
	@touch $@

$(VENV)/requirements-dev: requirements-dev.txt requirements-serve.txt requirements-pictures.txt \
                         $(VENV)/requirements | $(BIN)/python
	$(BIN)/python $(PIP_INSTALL) -r $<
	@touch $@

$(BEAM_VENV)/requirements: requirements-beam.txt | $(BEAM_VENV)/bin/python
	$(BEAM_VENV)/bin/python $(PIP_INSTALL) -r $< pytest hypothesis
	@touch $@
