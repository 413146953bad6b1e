# Thin: each target is one command. PYTHON may be any Python 3; set-up finds a fitting one itself.
PYTHON ?= python3
# Test processes, each with a lab of its own (4 GB); JOBS=0 runs the tests in one.
JOBS ?= $(shell "$(PYTHON)" tests/jobs.py)
# What `make prove` proves: a subject of tests/subjects.py.
SUBJECT ?= all
PYTEST := .venv/bin/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder
LAB := .venv/bin/lab

.DEFAULT_GOAL := help
.PHONY: help setup lab test prove tour site lint unit check up down clean lock

lab: ## open JupyterLab on the first lesson; sets up what is missing
	@"$(PYTHON)" -I lab_env/platform/install/bootstrap.py jupyter

up: setup ## start the services
	@$(LAB) up

down: ## stop the services, writers and live loads
	@$(LAB) down

tour: setup ## run the whole pipeline on live load; prove nothing is lost
	@$(LAB) tour

setup: ## fetch and build what the lab runs on (once)
	@"$(PYTHON)" -I lab_env/platform/install/bootstrap.py

clean: ## remove the lab's data, .venv and build; the cache stays
	@if .venv/bin/python -c "" 2>/dev/null; then $(LAB) down --purge; \
	elif [ -e "$${LAB_HOME:-.lab}" ]; then \
		echo "There is no working .venv, so services may still run and the lab's data stays." >&2; \
		echo "Next step: run make setup, then make clean again" >&2; exit 1; fi
	@rm -rf .venv build

test: setup ## run every notebook and what any change can break
	@$(PYTEST) --nbmake --prove=none --other-answers=changed tests notebooks solutions

prove: setup ## run what only a change of its subject can break: SUBJECT=campaign
	@$(PYTEST) --nbmake --prove=$(SUBJECT) tests notebooks solutions

site: setup ## make build/site: the notebooks that make test ran, and the docs
	@$(LAB) site

check: ## run lint and unit
	@$(MAKE) --no-print-directory -j2 lint unit

lint: setup ## check format, lint, types, import directions and lessons
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/ty check --no-progress --output-format concise
	@.venv/bin/lint-imports
	@$(LAB) author check

unit: ## run the unit tests
	@$(PYTEST) -q tests/unit

lock: ## resolve requirements.lock again
	@.venv/bin/python -m lab_env.platform.install.pin --packages

help: ## show these targets
	@awk -F':.*## ' '/^[a-z]+:.*## / { printf "make %-6s %s\n", $$1, $$2 }' Makefile
	@echo "Everything else: $(LAB) --help"
