# Every target sets up what it needs: on a new machine with Python >= 3.11 and make, `make demo` is enough.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: setup demo test check bench clean

setup: $(READY)

# torch comes first and exactly pinned: any looser request pulls gigabytes of CUDA packages on Linux.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --editable '.[dev]'
	touch $(READY)

demo: $(READY)
	$(BIN)/plm demo

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -q -n 2 -m "not slow"

test: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2

bench: $(READY)
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv
