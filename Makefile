# Two commands are the whole set-up: `make run` starts the product, `make test` runs every test.
# Both install what is missing and say what they do; both can be repeated.
.DEFAULT_GOAL := help
SHELL := bash
PY := .venv/bin/python
BIN := .venv/bin

.PHONY: help
help: ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

.PHONY: run
run: setup ## Start the whole product on this machine (Ctrl-C stops everything)
	@exec $(PY) manage.py up

.PHONY: setup
setup: ## Install what `make run` needs: system packages, Python, assets, vcuda, notebook environment
	@scripts/setup.sh run

.PHONY: setup-test
setup-test: ## Install what `make test` needs as well: browser, databases, compilers, linters
	@scripts/setup.sh test

.PHONY: test
test: setup-test ## All checks and all tests
	@scripts/test.sh all

.PHONY: test-fast
test-fast: ## Lint, types and the tests that need no other process (under two minutes)
	@scripts/test.sh fast

.PHONY: lint
lint: ## Style, types, layers, templates, spelling, generated files
	@scripts/test.sh lint

.PHONY: test-c
test-c: ## Library and simulated driver: unit and integration tests, then again with sanitizers
	@scripts/test.sh c

.PHONY: test-e2e
test-e2e: ## The whole product in a real browser
	@scripts/test.sh e2e

.PHONY: test-kubernetes
test-kubernetes: setup-test ## Everything on a real Kubernetes that is built and started for it
	@scripts/test.sh kubernetes

.PHONY: test-node
test-node: setup-test ## The node agent under a real kubelet: shares, kills, sick cards, a rolling update
	@scripts/test.sh node

.PHONY: test-runtime
test-runtime: setup-test ## CuPy and PyTorch, unmodified, under the limits (downloads 3 GB, unpacks 7; no part of `make test`)
	@scripts/test.sh runtime

.PHONY: cluster
cluster: setup-test ## Start a real Kubernetes with two simulated cards on this machine, and say its kubeconfig
	@$(PY) -m tests.cluster up --cards h100,h100 --install

.PHONY: cluster-stop
cluster-stop: ## Take that Kubernetes away
	@$(PY) -m tests.cluster down

.PHONY: bench
bench: setup-test ## Measure (NAME=… for one); figures go to build/bench.jsonl
	@scripts/bench.sh "$(NAME)"

.PHONY: bench-matrix
bench-matrix: setup-test ## Measure the whole accuracy matrix (an hour on two cores; what was measured stays in build/matrix.jsonl; MINUTES=60 stops then)
	@nice $(PY) -m vcuda.bench.matrix --jobs $$(nproc) --minutes $(or $(MINUTES),10000)

.PHONY: bench-docs
bench-docs: ## Render docs/benchmarks.md from build/bench.jsonl, and docs/benchmarks/ from what `make bench-matrix` measured
	@$(PY) scripts/bench_docs.py
	@$(PY) -m vcuda.bench.page

.PHONY: gpu-check
gpu-check: vcuda ## Hold the limiting library to its promises on this machine's NVIDIA card; says so where there is none
	@$(PY) -m vcuda.bench.gpucheck

.PHONY: screenshots
screenshots: setup-test ## Render every page (light, dark, Chinese, phone) into docs/images/
	@$(PY) scripts/screenshots.py

.PHONY: vcuda
vcuda: ## Build the limiting library and the simulated driver into build/vcuda
	@scripts/setup.sh vcuda

.PHONY: format
format: ## Format Python
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

.PHONY: messages
messages: ## Collect the strings to translate into locale/
	@$(PY) manage.py makemessages -l zh_Hans --no-location --no-obsolete -i build -i node_modules -i .venv -i var

.PHONY: openapi
openapi: ## Write docs/openapi.yaml from the code
	@$(PY) manage.py spectacular --file docs/openapi.yaml --validate

.PHONY: lock
lock: ## Resolve dependencies anew and write requirements.txt
	@uv lock && uv export --frozen --no-default-groups --all-extras --no-emit-project --no-header -q -o requirements.txt

.PHONY: clean
clean: ## Remove what was built (state in var/ stays)
	@rm -rf build .venv node_modules static/vendor staticfiles .mypy_cache .ruff_cache .pytest_cache
