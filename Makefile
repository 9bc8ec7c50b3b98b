# make demo   create .venv, install, run the fused sample on a batch and check it
# make test   the same environment with the development tools: lint, types, layers, tests
# make test-current  the same on a current Python (3.12 to 3.14), in an environment of its own; tests of kernels and fusion only
# make test-cuda  the CUDA target's tests, in an environment of their own; without a GPU, those that need none
# make test-distributed  kernels over Dask and MPI, in an environment of their own
# make bench  measure against NumPy and dpnp: a short report; asv_bench/README.md has more
# make bench-peers  compare realistic programs with JAX and PyTorch, in an environment of their own
# make docs   the documentation as a site, in build/docs, with the examples run for its gallery
# make tools  the offline compiler for Intel GPUs, its disassembler, the SPIR-V validator and OpenCL's headers (Debian)
# A fitting Python is looked for on the PATH; name one with  make demo PYTHON=...

VENV     := .venv
CUDA_VENV := .venv-cuda
CURRENT_VENV := .venv-current
PEERS_VENV := .venv-peers
DISTRIBUTED_VENV := .venv-distributed
BIN      := $(VENV)/bin
PIP      := $(BIN)/python -m pip --disable-pip-version-check install --constraint constraints.txt
SOURCES  := pyproject.toml constraints.txt tl_dpnp.pth tools/build_backend.py
TOOLS    := intel-opencl-icd libigc-tools spirv-tools opencl-headers
AS_ROOT  := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
PYTHON   ?= $(firstword $(foreach name,python3.11 python3.10 python3 python,$(shell $(call FITS,$(name)) && echo $(name))))
FITS      = $(1) -c 'import sys, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 12))' >/dev/null 2>&1
CURRENT  ?= $(firstword $(foreach name,python3.13 python3.14 python3.12 python3,$(shell $(call IS_CURRENT,$(name)) && echo $(name))))
IS_CURRENT = $(1) -c 'import sys, ensurepip; sys.exit(not (3, 12) <= sys.version_info[:2] < (3, 15))' >/dev/null 2>&1
#: What runs there: what compiles and runs kernels, and fusion.  docs/installing.md has what is left out, and why.
CURRENT_TESTS := tests/semantics tests/differential tests/graph tests/runtime

BASE      = import sys; print(sys.base_prefix, sys.version)

.PHONY: help demo install-dev test test-current test-cuda test-distributed lint bench bench-peers bench-asv bench-docs docs tools clean same-python
.DELETE_ON_ERROR:

help:
	@sed -n 's/^# make/make/p' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.installed
	@$(BIN)/python examples/fused_sample.py

install-dev: $(VENV)/.installed-dev

test: lint
	@$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal --capture=sys

test-current: $(CURRENT_VENV)/.installed
	@PYTHONPATH=. $(CURRENT_VENV)/bin/python -m pytest --numprocesses auto --maxprocesses 4 $(OPTIONS) $(CURRENT_TESTS)

test-cuda: $(CUDA_VENV)/.installed
	@PYTHONPATH=. $(CUDA_VENV)/bin/python -m pytest tests/cuda

test-distributed: $(DISTRIBUTED_VENV)/.installed
	@PYTHONPATH=. $(DISTRIBUTED_VENV)/bin/python -m pytest tests/distributed

lint: $(VENV)/.installed-dev
	@$(BIN)/ruff check .
	@PYTHONPATH=. $(BIN)/lint-imports
	@$(BIN)/mypy

bench: $(VENV)/.installed
	@$(BIN)/python -m asv_bench.report

bench-peers: $(VENV)/.installed $(PEERS_VENV)/.installed
	@$(BIN)/python -m asv_bench.must_show fusion-peers

bench-asv: $(VENV)/.installed-bench
	@cd asv_bench && ../$(BIN)/asv machine --yes >/dev/null && ../$(BIN)/asv run --quick --python=same \
		--launch-method=spawn --show-stderr --set-commit-hash "$$(git rev-parse HEAD)"

bench-docs: $(VENV)/.installed-bench
	-@$(BIN)/python -m asv_bench.must_show all
	-@$(BIN)/python -m asv_bench.must_show all --seed $$(date +%y%m%d%H%M)
	@$(BIN)/python -m asv_bench.plots

# Links inside, names and colours are checked: whatever Sphinx warns of is an error.
docs: $(VENV)/.installed-docs
	@$(BIN)/python -m sphinx --quiet --conf-dir docs --nitpicky --fail-on-warning --keep-going \
		--doctree-dir build/doctrees . build/docs
	@echo "build/docs/index.html"

tools:
	@command -v apt-get >/dev/null || { echo "make tools knows Debian's packages only: $(TOOLS)" >&2; exit 1; }
	@$(AS_ROOT) apt-get update -qq
	@$(AS_ROOT) apt-get install -y -qq --no-install-recommends $(TOOLS)

clean:
	rm -rf $(VENV) $(CURRENT_VENV) $(CUDA_VENV) $(PEERS_VENV) $(DISTRIBUTED_VENV) build dist docs/gallery *.egg-info .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment keeps the Python that it was made with, so another one that is asked for is an error.
same-python:
ifneq ($(filter command environment,$(firstword $(origin PYTHON))),)
	@[ ! -e $(BIN)/python ] || [ "$$($(PYTHON) -c '$(BASE)')" = "$$($(BIN)/python -c '$(BASE)')" ] || { \
		echo "$(VENV) was made with another Python than $(PYTHON): make clean, then again" >&2; exit 1; }
endif

$(BIN)/python: | same-python
	@$(call FITS,$(or $(PYTHON),false)) || { found=$$($(or $(PYTHON),python3) --version 2>&1 | tail -n 1); \
		echo "this needs Python 3.10 or 3.11 with the venv module (found: $${found:-none}):" \
		"install one, or name it with make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.installed: $(SOURCES) | same-python $(BIN)/python
	@echo "Installing tl_dpnp and the oneAPI runtime (about 1 GB to download the first time, some minutes)"
	@$(PIP) --editable .
	@touch $@

$(CUDA_VENV)/.installed: requirements-cuda.txt
	@echo "Creating $(CUDA_VENV) with $$($(PYTHON) --version), and numba-cuda in it (about 300 MB to download)"
	@$(PYTHON) -m venv $(CUDA_VENV)
	@$(CUDA_VENV)/bin/python -m pip --disable-pip-version-check install --requirement requirements-cuda.txt \
		'hypothesis>=6.100,<7' 'pytest>=8,<10'
	@touch $@

$(CURRENT_VENV)/.installed: pyproject.toml constraints-current.txt tl_dpnp.pth tools/build_backend.py
	@$(call IS_CURRENT,$(or $(CURRENT),false)) || { echo "make test-current needs Python 3.12, 3.13 or 3.14 with the venv" \
		"module: install one, or name it with make test-current CURRENT=/path/to/python3.13" >&2; exit 1; }
	@echo "Creating $(CURRENT_VENV) with $$($(CURRENT) --version), and tl_dpnp with the oneAPI runtime in it (about 1 GB)"
	@$(CURRENT) -m venv $(CURRENT_VENV)
	@$(CURRENT_VENV)/bin/python -m pip --disable-pip-version-check install --constraint constraints-current.txt \
		--editable . 'hypothesis>=6.100,<7' 'pytest>=8,<10' 'pytest-xdist>=3.6,<4'
	@touch $@

$(PEERS_VENV)/.installed: requirements-peers.txt
	@echo "Creating $(PEERS_VENV) with $$($(PYTHON) --version), and JAX and PyTorch in it"
	@$(PYTHON) -m venv $(PEERS_VENV)
	@$(PEERS_VENV)/bin/python -m pip --disable-pip-version-check install --requirement requirements-peers.txt
	@touch $@

$(DISTRIBUTED_VENV)/.installed: $(SOURCES) requirements-distributed.txt
	@echo "Creating $(DISTRIBUTED_VENV) with $$($(PYTHON) --version): tl_dpnp with the oneAPI runtime (about 1 GB), Dask, MPI"
	@$(PYTHON) -m venv $(DISTRIBUTED_VENV)
	@$(DISTRIBUTED_VENV)/bin/python -m pip --disable-pip-version-check install --constraint constraints.txt \
		--editable . --requirement requirements-distributed.txt 'hypothesis>=6.100,<7' 'pytest>=8,<10'
	@touch $@

# With the package itself, so that nothing is resolved and built twice where it is made first.
$(VENV)/.installed-dev: $(SOURCES) | same-python $(BIN)/python
	@echo "Installing tl_dpnp with the development tools, and the oneAPI runtime (about 1 GB to download the first time)"
	@$(PIP) --editable '.[dev]'
	@touch $(VENV)/.installed $@

$(VENV)/.installed-bench: $(SOURCES) | $(VENV)/.installed
	@echo "Installing the benchmarking tools"
	@$(PIP) --quiet --editable '.[bench]'
	@touch $@

$(VENV)/.installed-docs: $(SOURCES) requirements-distributed.txt | $(VENV)/.installed
	@echo "Installing Sphinx, and Dask and MPI for the gallery"
	@$(PIP) --quiet --editable '.[docs]' --requirement requirements-distributed.txt
	@touch $@
