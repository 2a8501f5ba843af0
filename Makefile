# Everything here works on a fresh clone: it needs Python >= 3.10 (with venv), a Rust toolchain and make.

PYTHON ?= python3
BIN := .venv/bin
NATIVE := pyproject.toml Cargo.toml $(wildcard Cargo.lock) $(shell find native -name '*.rs' -o -name 'Cargo.toml')

# A worker per core; each takes tests in a row, so that it makes the fixtures of a module once.
PARALLEL := --numprocesses=logical --dist=worksteal
# The quick tests use both cores already.
QUICK := POLARS_MAX_THREADS=1 $(BIN)/pytest $(PARALLEL) -m "not slow"

# Without it every process of a test compiles all sources, which takes it longer than its work.
export PYTHONDONTWRITEBYTECODE :=

# Clippy and cargo test look at PyO3's interpreter too; it must not be another one than maturin's.
export VIRTUAL_ENV := $(CURDIR)/.venv
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python

.PHONY: help demo test check coverage format generate pictures bench docs wheel sdist lock clean
.DELETE_ON_ERROR:

help:
	@sed -n 's/^\([a-z]*\):.*## /make \1@/p' Makefile | column -t -s @

demo: .venv/.package  ## build, write a sample job into demo/ and report on it
	$(BIN)/holotrace sample demo --ranks 8 --steps 5 --seed 1 >/dev/null
	$(BIN)/holotrace report demo --output demo/report.html
	@echo "Open demo/report.html in a browser. What is wrong with this job is in demo/GROUND_TRUTH.txt."

test: .venv/.dev  ## run the tests, but for those that are marked slow
	cargo test --locked --package holotrace-core
	$(QUICK) --hypothesis-profile=quick

check: .venv/.dev  ## everything that must hold before a commit, all tests included
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/typos
	cargo fmt --check
	cargo clippy --locked --workspace --all-targets -- --deny warnings
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/rust_layout.py
	$(BIN)/python -m mypy.stubtest holotrace._native
	$(BIN)/python tools/generate.py --check
	$(BIN)/zizmor --offline --quiet .github
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	cargo test --locked --package holotrace-core
	$(QUICK)
	$(BIN)/pytest $(PARALLEL) -m slow

coverage: .venv/.dev  ## which lines the quick tests reach; these take half as long again
	$(QUICK) --cov=holotrace --cov=hta --cov-report=term:skip-covered

format: .venv/.dev  ## put all sources into their one form
	$(BIN)/ruff format
	$(BIN)/ruff check --fix
	cargo fmt

generate: .venv/.dev  ## write the generated pages of docs/ again
	$(BIN)/python tools/generate.py

pictures: .venv/.dev  ## take the pictures of docs/ again, with Chromium
	$(BIN)/python tools/pictures.py

bench: .venv/.dev  ## measure, and compare with others
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/causes_found.py --page docs/concepts/causes-found.md

docs: .venv/.docs  ## build the documentation into site/
	NO_MKDOCS_2_WARNING=true $(BIN)/mkdocs build

wheel: .venv/.package  ## build both wheels into dist/ and try them in an empty environment
	rm -rf dist
	$(BIN)/maturin build --release --locked --out dist
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist ./python-hta
	$(BIN)/python tools/smoke_test.py dist/holotrace-*.whl dist/holotrace_hta-*.whl

sdist: .venv/.package  ## build both source distributions into dist/ and try them in an empty environment
	rm -rf dist
	$(BIN)/python -m build --sdist --outdir dist .
	$(BIN)/python -m build --sdist --outdir dist python-hta
	$(BIN)/python tools/smoke_test.py dist/holotrace-*.tar.gz dist/holotrace_hta-*.tar.gz

lock: .venv/.package  ## write dev.lock again, with the newest versions
	$(BIN)/python -m pip install --quiet uv
	@echo '# The versions that the development environment is made of. Written by `make lock`; other environments are not bound by it.' >dev.lock
	$(BIN)/uv pip compile --upgrade --universal --python-version 3.10 --quiet --no-annotate --no-header --no-emit-index-url \
		--no-emit-package holotrace $(foreach group,build dev docs,--group pyproject.toml:$(group)) \
		pyproject.toml python-hta/pyproject.toml >>dev.lock

clean:  ## remove everything that was made here
	rm -rf .venv demo dist site target python/holotrace/_native*.so

.venv/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
		|| { echo "holotrace needs Python 3.10 or newer; name one: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip

.venv/.package: .venv/.core .venv/.hta
	@touch $@

.venv/.core: .venv/pyvenv.cfg $(NATIVE)
	@command -v cargo >/dev/null || { echo "holotrace needs a Rust toolchain; install one with rustup."; exit 1; }
	$(BIN)/python -m pip install --quiet --constraint dev.lock --group build
	$(BIN)/maturin develop --release --locked --group build
	@touch $@

# Installed once: it has no core to be built.
.venv/.hta: python-hta/pyproject.toml | .venv/.core
	$(BIN)/python -m pip install --quiet --constraint dev.lock --editable python-hta
	@touch $@

.venv/.dev .venv/.docs: .venv/.%: .venv/.package pyproject.toml dev.lock
	$(BIN)/python -m pip install --quiet --constraint dev.lock --group $*
	@touch $@
