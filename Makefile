# `make demo` runs the main job on real photos, `make test` passes the tests; each sets up what it needs, on any machine
# with Python 3.11 or newer. `make quick` finds most mistakes in two minutes, `make check` is what to run before a commit.

PYTHON ?= python3
# Python may keep what it compiled, here and in the processes that tests start.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
ADAPTERS := .venv-adapters

.PHONY: demo quick test test-adapters check format docs site bench gpu-wheels gpu-check reliability fuzz clean

# The environment is made anew when the project's requirements change, and the native library when its sources do.
$(VENV)/ready: pyproject.toml hatch_build.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group test --group docs --editable '.[examples]'
	touch $@

$(VENV)/core: $(VENV)/ready $(wildcard dynamic/_core/*.c dynamic/_core/*.h)
	$(BIN)/python hatch_build.py
	touch $@

demo: $(VENV)/core
	$(BIN)/python examples/resume.py

# A few examples of each property, on the CPU, without the tests that are marked as slow.
quick: $(VENV)/core
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest -n auto -m "not slow and not gpu"

test: $(VENV)/core
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n auto

# The same environment with PyTorch, JAX and TensorFlow, for what is skipped without them. PIP_ARGUMENTS goes to pip.
$(ADAPTERS)/ready: pyproject.toml
	$(PYTHON) -m venv $(ADAPTERS)
	$(ADAPTERS)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(ADAPTERS)/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGUMENTS) \
		--group test --group adapters --editable '.[examples]'
	touch $@

test-adapters: $(ADAPTERS)/ready
	CUDA_VISIBLE_DEVICES= $(ADAPTERS)/bin/python -m pytest -n auto tests/test_pytorch.py tests/test_handover.py tests/test_epochs.py tests/test_nodes.py tests/test_jax.py \
		tests/test_jax_iterators.py tests/test_tensorflow.py tests/test_trainers.py tests/test_sources_table.py tests/test_dalis_scripts.py \
		tests/test_pipeline.py tests/test_conditionals.py tests/test_examples.py \
		tests/test_readers_map.py tests/test_remote.py

check: format test

format: $(VENV)/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/ready
	$(BIN)/python docs/make_operators.py
	$(BIN)/python docs/make_floors.py
	$(BIN)/python docs/make_notebooks.py
	$(BIN)/python docs/make_parity.py

# The documentation, to be read at build/site/index.html.
site: $(VENV)/ready
	$(BIN)/python docs/make_site.py build/site

bench: $(VENV)/core
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/job.py
	$(BIN)/python benchmarks/operators.py
	$(BIN)/python benchmarks/augmentation.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/pipeline.py

# What a machine with a GPU may lack, in one file for machines without a package index; and what to run there, with the
# Python that has CuPy: `make gpu-check PYTHON=python3`.
gpu-wheels: $(VENV)/ready
	$(BIN)/python benchmarks/gpu_check.py --collect

gpu-check:
	$(PYTHON) benchmarks/gpu_check.py

# Every goal of docs/reliability.md, in full; writes the table there.
reliability: $(VENV)/ready
	$(BIN)/python tests/reliability.py

# Ten minutes for each of six targets, with atheris where it has a wheel.
fuzz: $(VENV)/ready
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --group fuzz
	$(BIN)/python tests/fuzzing.py

clean:
	rm -rf $(VENV) $(ADAPTERS) dynamic/_core/*.so dynamic/_core/*.dylib demo-output build dist .mypy_cache .ruff_cache .hypothesis .coverage
