# One line per task; `make` alone lists them. Nothing here reads the ambient KUBECONFIG.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
unexport KUBECONFIG

PYTHON ?= python3
SUPER_KUBECONFIG ?=
IMAGES ?=
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest

.PHONY: help setup check format generate unit integration node test slow up demo down push bench clean

help: ## list the tasks
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.venv/ready: requirements.lock pyproject.toml
	@./tests/testbed/python-venv "$(PYTHON)"
	@touch $@

setup: .venv/ready ## make .venv with everything that development needs

up: .venv/ready ## an empty super cluster with the chart installed; kubeconfig at .testbed/super.kubeconfig
	@$(BIN)/python -m tests.testbed up

demo: .venv/ready ## the main job: super cluster, tenant, a pod in it, its logs (SUPER_KUBECONFIG=FILE IMAGES=REGISTRY/PREFIX: on your own cluster)
	@$(BIN)/python -m tests.demo $(if $(SUPER_KUBECONFIG),--super-kubeconfig '$(SUPER_KUBECONFIG)') $(if $(IMAGES),--images '$(IMAGES)')

down: .venv/ready ## remove the super cluster and everything in it
	@$(BIN)/python -m tests.testbed down --all
	@$(BIN)/python -m tests.testbed check-clean

push: .venv/ready ## push all images to a registry (IMAGES=REGISTRY/PREFIX)
	@test -n "$(IMAGES)" || { echo "say where to: make push IMAGES=REGISTRY/PREFIX" >&2; exit 2; }
	@$(BIN)/python -m tests.testbed push --to '$(IMAGES)'

check: .venv/ready ## format, lint, types, layers, unit and contract tests; under a minute
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(PYTEST) -q tests/unit tests/contract

format: .venv/ready ## format and mend what the linter can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

generate: .venv/ready ## write the RBAC of the chart from the code's tables
	@$(BIN)/python -m charts.generate

unit: .venv/ready ## pure tests
	@$(PYTEST) tests/unit tests/contract

integration: .venv/ready ## tests with real etcd and API servers
	@$(PYTEST) tests/chart tests/integration

node: .venv/ready ## tests with a real super cluster: kubelet, containerd, tenants
	@$(PYTEST) -m 'not slow' tests/node

test: unit integration node ## unit, integration and node tests

slow: .venv/ready ## tests that take long
	@$(PYTEST) -m slow tests

bench: .venv/ready ## figures: provisioning time, idle cost of a tenant, memory of our components
	@$(BIN)/python -m bench.provision

clean: ## remove what the build left in this folder (not the cache)
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist
