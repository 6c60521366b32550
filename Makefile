PYTHON ?= python3
SERVE :=  # options of canonry serve
CHAOS :=  # options of the chaos run
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# Bytecode must be compiled: start-up times mean nothing without it.
unexport PYTHONDONTWRITEBYTECODE
INPUTS := pyproject.toml setup.py constraints.txt $(wildcard src/canonry/core/native/*.c src/canonry/core/native/*.h)

# Decisions without I/O: their tests must run every branch.
PURE_TESTS := tests/core tests/feeds/test_item_matching.py tests/feeds/test_probes.py tests/rekey/test_entry_keys.py
PURE_MODULES := src/canonry/core/*,src/canonry/feeds/item_matching.py,src/canonry/feeds/content.py,src/canonry/feeds/canonicalize/probes.py,src/canonry/rekey/entry_keys.py

.PHONY: run test check pure tables law mutate fuzz asan leaks chaos bench reference docs clean

run: $(VENV)/run  ## from a fresh clone to a running service: http://127.0.0.1:8000/
	@$(BIN)/canonry serve $(SERVE)

test: $(VENV)/test  ## everything: checks, tests, coverage of the core
	@$(BIN)/python tools/parts.py
	@$(MAKE) --no-print-directory --jobs 2 --output-sync check pure
	$(BIN)/python -m pytest -q -n 4 --dist worksteal  # many of them wait: more than there are cores

pure: $(VENV)/test  ## the core without its native half: every branch is run
	$(BIN)/python -m coverage erase
	CANONRY_PURE=1 $(BIN)/python -m coverage run -m pytest -q -m "not slow and not native" $(PURE_TESTS)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --include "$(PURE_MODULES)" --fail-under 100

check: $(VENV)/test  ## lint, types, import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports

tables: $(VENV)/run  ## src/canonry/core/tables.py from core/data
	$(BIN)/python tools/tables.py write

law: $(VENV)/run  ## record the answers of new policy versions
	$(BIN)/python tools/law.py

mutate: $(VENV)/mutate  ## does a test notice when a rule breaks?
	$(BIN)/python tools/mutate.py

fuzz: $(VENV)/test  ## five minutes of libFuzzer on the native core, with AddressSanitizer and UBSan (needs clang)
	PYTHONPATH=.:tests $(BIN)/python tests/native/fuzz.py --seconds 300

asan: $(VENV)/test  ## the native core inside Python under AddressSanitizer and UBSan (needs gcc)
	$(BIN)/python tests/native/asan.py

leaks: $(VENV)/test  ## ten million URLs answered natively: does memory grow?
	PYTHONPATH=.:tests $(BIN)/python tests/native/leaks.py

chaos: $(VENV)/test  ## ten minutes of killing what runs, and an audit of what was promised (CHAOS="--seconds 60 --seed 1")
	PYTHONPATH=.:tests $(BIN)/python -m chaos $(CHAOS)

bench: $(VENV)/bench  ## speed beside the peers
	$(BIN)/python -m benchmarks

reference: $(VENV)/test  ## docs/reference/ from the code
	PYTHONPATH=.:tests $(BIN)/python tests/docs/reference_pages.py

docs: $(VENV)/docs  ## the documentation as a site
	$(BIN)/sphinx-build --fail-on-warning --keep-going -q docs site

$(VENV)/run: $(INPUTS)
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable ".[serve]"
	@touch $@

$(VENV)/test $(VENV)/bench $(VENV)/docs $(VENV)/mutate: $(VENV)/%: $(INPUTS) | $(VENV)/run
	$(PIP) --editable ".[$*]"
	@touch $@

clean:
	rm -rf $(VENV) build dist site .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis
