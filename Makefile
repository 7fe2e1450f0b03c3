# The two main commands are `make run` and `make test`. Each sets up .venv first, once.
# PYTHON=/path/to/python3 and TORCH=torch==X.Y.Z choose Python and torch (docs/install.md).
.DEFAULT_GOAL := help
.PHONY: help install run test page wheel docs lint format clean

help:
	@echo "make run      set up, run the lab, build the page and open it"
	@echo "make test     set up, with a browser, and run every check"
	@echo "make install  set up only; the command is then .venv/bin/manyheads"
	@echo "make page     build the page into src/manyheads/web/static"
	@echo "make docs     build the documentation into dist/docs"
	@echo "make wheel    build the page and dist/manyheads-*.whl"
	@echo "make lint     check formatting, lint, types and import contracts only"
	@echo "make format   format the sources"
	@echo "make clean    delete everything that these commands made"

install:
	@scripts/setup run
	@echo ".venv/bin/manyheads is ready"

run:
	@scripts/run

test:
	@scripts/setup test
	@scripts/page --tests
	@scripts/chromium >/dev/null
	@scripts/check

page: install
	@scripts/page

wheel: install page
	@.venv/bin/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	@ls dist/*.whl

docs:
	@scripts/setup test
	@.venv/bin/zensical build --strict
	@echo "The documentation: $(CURDIR)/dist/docs/index.html"

lint:
	@scripts/setup test
	@scripts/check --lint

format:
	@scripts/setup test
	@.venv/bin/ruff check --fix-only --quiet .
	@.venv/bin/ruff format .
	@scripts/page
	@cd web && PATH="$$PWD/../.venv/bin:$$PATH" node_modules/.bin/biome check --write .

clean:
	rm -rf .venv .cache dist build .coverage .ruff_cache .mypy_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf web/node_modules web/dist web/src/generated src/manyheads/web/static
	find src tests scripts benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
