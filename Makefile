# Thin: each target is one command. PYTHON may be any Python 3; set-up finds a fitting one itself.
PYTHON ?= python3
# Test processes, each with a lab of its own (4 GB); JOBS=0 runs the tests in one.
JOBS ?= $(shell "$(PYTHON)" tests/jobs.py)
PYTEST := .venv/bin/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder
LAB := .venv/bin/lab

.DEFAULT_GOAL := help
.PHONY: help setup lab test tour site lint unit check up down clean lock

help: ## what there is to make
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' Makefile

setup: ## all that the lab runs on (once; later runs see that it is there)
	@"$(PYTHON)" -I lab_env/install/bootstrap.py

lab: ## JupyterLab on the first lesson; set-up goes on meanwhile, then the services start
	@"$(PYTHON)" -I lab_env/install/bootstrap.py jupyter

test: setup ## every test and every notebook
	@$(PYTEST) --nbmake --durations=10 tests notebooks solutions

tour: setup ## the whole pipeline on live load, with proof
	@$(LAB) tour

site: setup ## the lessons as `make test` has executed them, and the guides, as web pages in build/site
	@$(LAB) site

lint: setup ## format, lint, types, import directions, lessons
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/ty check --no-progress --output-format concise
	@.venv/bin/lint-imports
	@$(LAB) author check

check: ## format, lint, types, import directions, lessons, unit tests: side by side
	@$(MAKE) --no-print-directory -j2 lint unit

unit: ## unit tests
	@$(PYTEST) -q tests/unit

up: setup ## start the services
	@$(LAB) up

down: ## stop the services, writers and live loads
	@$(LAB) down

clean: ## the same, and remove the lab's data, .venv and build; the cache stays
	@if .venv/bin/python -c "" 2>/dev/null; then $(LAB) down --purge; \
	elif [ -e "$${LAB_HOME:-.lab}" ]; then \
		echo "There is no working .venv, so services may still run and the lab's data stays." >&2; \
		echo "Next step: run make setup, then make clean again" >&2; exit 1; fi
	@rm -rf .venv build

lock: ## resolve requirements.lock anew
	@.venv/bin/python -m lab_env.install.pin --packages
