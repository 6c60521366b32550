PYTHON ?= python3
SERVE :=  # options of canonry serve
CHAOS :=  # options of the chaos run
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# Start-up times are only meaningful with compiled bytecode.
unexport PYTHONDONTWRITEBYTECODE
INPUTS := pyproject.toml setup.py constraints.txt $(wildcard src/canonry/core/native/*.c src/canonry/core/native/*.h src/canonry/learner/native/*.c src/canonry/learner/native/*.h)

# Decisions without I/O: their tests must run every branch.
PURE_TESTS := tests/core tests/crawler/test_decisions.py tests/feeds/test_canonicalize_decisions.py \
	tests/feeds/test_item_matching.py tests/feeds/test_keyed_items.py tests/feeds/test_probes.py tests/rekey/test_entry_keys.py
FEEDS := src/canonry/feeds
PURE_MODULES := src/canonry/core/*,src/canonry/crawler/decide.py,$(FEEDS)/item_matching.py,$(FEEDS)/keyed_items.py,$(FEEDS)/content.py,$(FEEDS)/canonicalize/decisions.py,$(FEEDS)/canonicalize/probes.py,src/canonry/rekey/entry_keys.py

.PHONY: run test quick check pure tables law mutate fuzz asan leaks chaos bench reference docs dist wheels clean

run: $(VENV)/run  ## install and start the service: http://127.0.0.1:8000/
	@$(BIN)/canonry serve $(SERVE)

test: $(VENV)/test  ## lint, types, import contracts, coverage of the core, all tests
	@$(BIN)/python tools/parts.py
	@$(MAKE) --no-print-directory --jobs 2 --output-sync check pure
	$(BIN)/python -m pytest -q -n 4 --dist worksteal  # more processes than cores, because many tests wait

quick: $(VENV)/test  ## all tests that take less than ten seconds, without lint and types
	$(BIN)/python -m pytest -q -n 4 --dist worksteal -m "not slow"

pure: $(VENV)/test  ## pure decisions without the native core, 100 % branch coverage
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

law: $(VENV)/run  ## record the results of new policy versions
	$(BIN)/python tools/law.py

mutate: $(VENV)/mutate  ## mutation tests: does a test fail when a rule is changed?
	$(BIN)/python tools/mutate.py

fuzz: $(VENV)/test  ## five minutes of libFuzzer on the native core, with AddressSanitizer and UBSan (needs clang)
	PYTHONPATH=.:tests $(BIN)/python tests/native/fuzz.py --seconds 300

asan: $(VENV)/test  ## the native core inside Python under AddressSanitizer and UBSan (needs gcc)
	$(BIN)/python tests/native/asan.py

leaks: $(VENV)/test  ## normalize ten million URLs natively and check that memory does not grow
	PYTHONPATH=.:tests $(BIN)/python tests/native/leaks.py

chaos: $(VENV)/test  ## kill processes at random for ten minutes, then check that nothing was lost (CHAOS="--seconds 60 --seed 1")
	PYTHONPATH=.:tests $(BIN)/python -m chaos $(CHAOS)

bench: $(VENV)/bench  ## benchmarks beside other libraries
	$(BIN)/python -m benchmarks

reference: $(VENV)/test  ## write docs/reference/ from the code
	PYTHONPATH=.:tests $(BIN)/python tests/docs/reference_pages.py

docs: $(VENV)/docs  ## build the documentation as a website
	$(BIN)/sphinx-build --fail-on-warning --keep-going -q docs site

dist: $(VENV)/release  ## dist/: the source distribution, a wheel for this Python, and one without the native core
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	CANONRY_PURE=1 $(BIN)/python -m build --wheel --outdir dist
	$(BIN)/twine check --strict dist/*

wheels: $(VENV)/release  ## wheelhouse/: wheels of this system for every Python (on Linux with Docker)
	$(BIN)/cibuildwheel --output-dir wheelhouse

$(VENV)/run: $(INPUTS)
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable ".[serve]"
	@touch $@

$(VENV)/test $(VENV)/bench $(VENV)/docs $(VENV)/mutate $(VENV)/release: $(VENV)/%: $(INPUTS) | $(VENV)/run
	$(PIP) --editable ".[$*]"
	@touch $@

clean:
	rm -rf $(VENV) build dist wheelhouse site .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis
