# Needs Python >= 3.11 and a package index, nothing else. PIP_ARGS passes options to every `pip install`.
PYTHON ?= python3
PIP_ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
# Keeps to the tested versions.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(PIP_ARGS)
PACKAGES := memory train_data distill serving
EXTRAS := cpu,train,bench,serve
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false

.PHONY: demo test test-fast test-vllm vllm-env lint types clean

demo: $(VENV)/.installed
	$(BIN)/intentmem demo

# The tests with a real server have the machine to themselves: they come first, and the closing line is that of all others.
test: $(VENV)/.dev lint types vllm-env
	$(BIN)/python -m pytest -q -m vllm tests/serving_llm
	$(BIN)/python -m pytest -q -n 2

test-fast: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n 2 -m "not slow and not real and not vllm"

# A real vLLM on the CPU, in an environment of its own (about 4 GB), and a small model for it. Where it cannot be
# installed, the reason is printed, and its tests are skipped.
vllm-env:
	$(PYTHON) tests/serving_llm/vllm_setup.py $(PIP_ARGS)

test-vllm: $(VENV)/.dev vllm-env
	$(BIN)/python -m pytest -q -m vllm tests/serving_llm

lint: $(VENV)/.dev
	$(BIN)/ruff check .

# By package, on what a user gets: the folders here are not named as the packages are.
types: $(VENV)/.dev
	rm -rf build/types build/lib build/bdist.*
	$(INSTALL) --no-deps --no-build-isolation --target build/types .
	cd build && MYPYPATH=types ../$(BIN)/python -m mypy --config-file ../pyproject.toml --cache-dir ../.mypy_cache \
		$(foreach package,$(PACKAGES),-p intentmem.$(package))

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) "pip>=25.1"

# torch first and by its constraint, so that nothing else decides which build of it is taken.
$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) "setuptools>=77" torch
	$(INSTALL) --no-build-isolation -e ".[cpu]"
	touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(INSTALL) --no-build-isolation -e ".[$(EXTRAS)]"
	$(INSTALL) --group dev
	touch $@

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
