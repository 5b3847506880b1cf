# One line per task. `make` alone lists them. No target reads the KUBECONFIG of the shell.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
unexport KUBECONFIG

PYTHON ?= python3
SUPER_KUBECONFIG ?=
IMAGES ?=
BIN := .venv/bin
# Each run ends with its twenty slowest tests and fixtures.
PYTEST := $(BIN)/python -m pytest -p tests.support.shards --durations=20 --durations-min=1 $(if $(RECORD),--record-durations)
# SHARD=0 to 4 runs that part of five of everything that takes long. Five landings run all of it.
SHARD ?=
shard := $(if $(SHARD),--shard $(SHARD))
# In the order of folders, so that the servers of a folder can end (tests/conftest.py).
beside = -n auto --dist loadfile --no-loadscope-reorder $(shard)
# With TRIES=2, failed tests run once more, alone. Both runs are printed. A run that broke off (exit code
# other than 1) is not repeated. This is for tests with servers, sockets and processes of their own. Each
# target has its own record of failed tests, because two targets run at once.
TRIES ?= 1
memory = -o cache_dir=.pytest_cache/$@
again = || { [ $$? = 1 ] && [ '$(TRIES)' = 2 ] && echo "once more, alone: what failed above" \
	&& $(PYTEST) $(memory) -n 0 --last-failed --last-failed-no-failures none $(1); }
tried = { $(PYTEST) $(memory) $(1) $(2) $(call again,$(2)); }
# With NAMED=1, each line begins with the target that printed it.
named = $(if $(NAMED),{ $(1); } 2>&1 | { trap '' INT; sed -u 's/^/$@: /'; },$(1))
# One more than there are processors: many tests wait.
WORKERS := $(shell echo $$(($$(nproc) + 1)))
# Programs of a target are built before its first test, with no limit of time. Tests build nothing.
prepare = @$(BIN)/python -m tools.testbed build --for $(1)
FOR ?= thorough
# Or each worker compiles every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup prepare check static format generate docs release unit properties agent-properties integration node test thorough thorough-properties thorough-integration thorough-node changed landing slow conformance mutants up demo down push bench bench-all clean

help: ## list the tasks
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /	/' | expand -t 18

.venv/ready: requirements.lock pyproject.toml
	@./tools/testbed/python-venv "$(PYTHON)"
	@touch $@

setup: .venv/ready ## make .venv with everything that development needs

prepare: .venv/ready ## build all programs and images that tests need (FOR=demo: only those of `make demo`)
	$(call prepare,$(FOR))

up: .venv/ready ## an empty super cluster with the chart installed, kubeconfig at .testbed/super.kubeconfig
	$(call prepare,up)
	@$(BIN)/python -m tools.testbed up

demo: .venv/ready ## the main job: super cluster, tenant, a pod in it, its logs (SUPER_KUBECONFIG=FILE IMAGES=REGISTRY/PREFIX: on your own cluster)
	$(if $(SUPER_KUBECONFIG),,$(call prepare,demo))
	@$(BIN)/python -m tools.demo $(if $(SUPER_KUBECONFIG),--super-kubeconfig '$(SUPER_KUBECONFIG)') $(if $(IMAGES),--images '$(IMAGES)')

down: .venv/ready ## remove the super cluster and everything in it
	@$(BIN)/python -m tools.testbed down --all
	@rm -f .testbed/*.kubeconfig
	@$(BIN)/python -m tools.testbed check-clean

push: .venv/ready ## push all images to a registry (IMAGES=REGISTRY/PREFIX)
	@test -n "$(IMAGES)" || { echo "IMAGES is missing. Run \`make push IMAGES=REGISTRY/PREFIX\`." >&2; exit 2; }
	@$(BIN)/python -m tools.testbed push --to '$(IMAGES)'

check: .venv/ready ## format, lint, types, layers, unit and contract tests (under 1 min)
	@$(MAKE) --no-print-directory static & static=$$!; \
		$(call tried,-q -n $(WORKERS) --hypothesis-profile=quick,tests/unit tests/scenarios tests/contract); wait $$static

static: .venv/ready ## format, lint, layers and types of `make check`, and the documentation site
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/lint-imports
	@$(BIN)/mypy
	@$(MAKE) --no-print-directory docs

format: .venv/ready ## format and mend what the linter can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

generate: .venv/ready ## write the chart's RBAC, docs/kinds.md and docs/reference from the code
	@$(BIN)/python -m charts.generate
	@$(BIN)/python -m tools.reference

.venv-docs/ready: tools/docs/requirements.lock
	@echo "making .venv-docs from tools/docs/requirements.lock"
	@"$(PYTHON)" -m venv --clear .venv-docs
	@.venv-docs/bin/pip install --quiet --require-hashes -r tools/docs/requirements.lock
	@touch $@

# One commit gives the same files each time. The second and later builds need no network.
release: .venv/ready ## all files of a release in dist/release: wheel, chart, images, plugin, bill of materials, checksums
	@$(BIN)/python -m tools.release

# Strict: a broken link, a missing heading or a page that no section lists fails the build.
docs: .venv-docs/ready ## the documentation site in dist/site, strict (some seconds)
	@.venv-docs/bin/sphinx-build -E -q -n -W --keep-going -c tools/docs -d dist/site-cache . dist/site
	@echo "open dist/site/docs/README.html"

unit: .venv/ready ## pure tests
	$(call prepare,unit)
	@$(call tried,-n $(WORKERS),tests/unit tests/scenarios tests/contract)

properties: .venv/ready ## the unit tests' properties at length: a million names, thousands of interleavings
	$(call prepare,properties)
	@$(call named,$(PYTEST) -n auto $(shard) --shard-tests -m 'not thorough' tests/properties tests/chaos/memory)

agent-properties: .venv/ready ## the node agent's properties at full length, as docs/reliability.md has them (30 min, SEED=1: that seed)
	@for each in targets certificates frames cuts; do \
		$(BIN)/python -m tests.properties.agent $$each $(if $(SEED),--seed $(SEED)); \
	done

integration: .venv/ready ## tests with real etcd and API servers
	$(call prepare,integration)
	@$(call named,$(call tried,$(beside),-m 'not thorough and not slow' tests/chart tests/integration tests/chaos/processes))

node: .venv/ready ## tests with a real super cluster: kubelet, containerd, tenants
	$(call prepare,node)
	@$(call named,$(call tried,$(shard),-m 'not thorough and not slow' tests/node))

# Node tests mostly wait for pods. The others have the processors meanwhile.
test: .venv/ready ## unit, property, integration and node tests (25 min)
	$(call prepare,test)
	@$(MAKE) --no-print-directory unit
	@$(MAKE) --no-print-directory --jobs=2 node properties integration NAMED=1

thorough: .venv/ready ## every kind, fault and skew at length, beyond `make test` (40 min)
	$(call prepare,thorough)
	@$(MAKE) --no-print-directory --jobs=2 thorough-node thorough-properties thorough-integration NAMED=1

thorough-properties: .venv/ready
	@$(call named,$(PYTEST) -n auto $(shard) --shard-tests -m thorough tests/properties tests/chaos/memory)

thorough-integration: .venv/ready
	@$(call named,$(call tried,$(beside),-m 'thorough and not slow' tests/chart tests/integration tests/chaos/processes))

thorough-node: .venv/ready
	@$(call named,$(call tried,$(shard),-m 'thorough and not slow' tests/node))

changed: .venv/ready ## tests on real servers that changed since the last landing, or that import a changed module (up to 8 min)
	$(call prepare,thorough)
	@files=$$($(BIN)/python -m tests.support.changed tests/chart tests/integration tests/chaos/processes tests/node); \
	beside=$$(grep -v ^tests/node/ <<< "$$files" || true); node=$$(grep ^tests/node/ <<< "$$files" || true); \
	[ -z "$$beside" ] || $(call tried,-n auto --dist loadfile --no-loadscope-reorder,-m 'not slow' $$beside); \
	[ -z "$$node" ] || $(call tried,,-m 'not slow' $$node)

landing: ## raise the number of the landing, which chooses the part of five that `.ci/run` runs (commit it with the change)
	@echo $$(($$(cat .ci/landing) + 1)) > .ci/landing

slow: .venv/ready ## the longest tests: kubectl of the minor between, outages that are reported late, drills and models, 15 min without the syncer (50 min)
	$(call prepare,slow)
	@$(PYTEST) -m slow tests

# SLICE=1 runs the cases of tools/conformance/slice.yaml (up to 10 min). A run that was ended goes on.
conformance: .venv/ready ## Kubernetes' conformance suite, on the super cluster and in a tenant (SLICE=1: a short run)
	$(call prepare,conformance)
	@$(BIN)/python -m tools.conformance run $(if $(SLICE),--slice) $(if $(SHARD),--shard $(SHARD)) $(ARGS)

.venv-mutants/ready: requirements.lock tools/mutants/requirements.lock
	@"$(PYTHON)" -m venv --clear .venv-mutants
	@.venv-mutants/bin/pip install --quiet --require-hashes -r requirements.lock -r tools/mutants/requirements.lock
	@touch $@

# With ARGS=--go-on, a run that was ended goes on. ARGS=--survivors repeats mutants that no test noticed.
mutants: .venv-mutants/ready ## mutation testing of decide, names, ownership, guards and translation (30 min or more)
	@.venv-mutants/bin/python -m tools.mutants run $(ARGS)

bench: .venv/ready ## figures of pods beside a direct run, provisioning, idle cost, memory, 10 quiet minutes, the node agent (after `make up`)
	$(call prepare,bench)
	@$(BIN)/python -m bench.pods --profile burst --tenants 10 --pods 1000 --pairs 5
	@$(BIN)/python -m bench.provision
	@$(BIN)/python -m bench.quiet
	@$(BIN)/python -m bench.agent

bench-all: .venv/ready ## every measurement that needs no installed cluster (60 quiet minutes, SMALL=1: in miniature, to see that they work)
	$(call prepare,bench)
	@$(BIN)/python -m bench.everything $(if $(SMALL),--small) $(ARGS)

clean: ## remove what the build left in this folder (not the cache)
	@rm -rf .venv .venv-mutants .venv-docs mutants .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist
