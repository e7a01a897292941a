# `make demo` runs the main job on real photos, `make test` passes the tests; each sets up what it needs, on any machine
# with Python 3.11 or newer. `make check` is what to run before a commit.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check format docs bench reliability fuzz clean


# The environment is made anew when the project's requirements change.
$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group test --editable '.[examples]'
	touch $@

demo: $(VENV)/ready
	$(BIN)/python examples/resume.py

test: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n auto

check: format test

format: $(VENV)/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/ready
	$(BIN)/python docs/make_operators.py

bench: $(VENV)/ready
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/job.py
	$(BIN)/python benchmarks/operators.py
	$(BIN)/python benchmarks/training.py

# Every goal of docs/reliability.md, in full; writes the table there.
reliability: $(VENV)/ready
	$(BIN)/python tests/reliability.py

# Ten minutes for each of six targets, with atheris where it has a wheel.
fuzz: $(VENV)/ready
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --group fuzz
	$(BIN)/python tests/fuzzing.py

clean:
	rm -rf $(VENV) demo-output build dist .mypy_cache .ruff_cache .hypothesis .coverage
