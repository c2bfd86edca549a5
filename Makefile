# make builds, make help lists the targets.

BIN := bin/nvls-allreduce
GO ?= go
# go-nvml binds functions that NVIDIA's own header calls deprecated.
export CGO_CFLAGS += -Wno-deprecated-declarations

# What the tests run against, by Debian's names: the compiler of the kernels,
# both MPIs, a Slurm controller and node, and what looks at system calls.
PACKAGES := clang-19 openmpi-bin mpich slurmctld slurmd slurm-client slurm-wlm-basic-plugins libpmix-dev munge strace shellcheck \
	charliecloud-runtime debootstrap bubblewrap

.DEFAULT_GOAL := build

.PHONY: help
help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 12

.PHONY: build
build: ## Build bin/nvls-allreduce (needs Go and a C compiler)
	$(GO) build -o $(BIN) ./cmd/nvls-allreduce
	@mkdir -p results

.PHONY: run
run: build ## Run the main job on 4 ranks and draw results/bandwidth.png
	@./run.sh $(BIN)

.PHONY: test
test: packages lint ## Install what the tests need (Debian, as root) and run them all
	NVLS_ALLREDUCE_REQUIRE=all $(GO) test -timeout 15m ./...

.PHONY: packages
packages:
	@missing=; for p in $(PACKAGES); do dpkg -s $$p >/dev/null 2>&1 || missing="$$missing $$p"; done; \
	[ -z "$$missing" ] || { echo "installing:$$missing"; apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $$missing >/dev/null; }

.PHONY: lint
lint: ## Format, vet, staticcheck, shellcheck
	@bad=$$(gofmt -l .); [ -z "$$bad" ] || { echo "not gofmt-ed: $$bad"; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	shellcheck $$(git ls-files '*.sh' '.ci/run' '*.sbatch')

.PHONY: kernels
kernels: ## Compile the kernels to PTX (needs clang-19)
	internal/kernels/build.sh internal/kernels/ptx

# A process for each kernel, so many at a time. All must be in the list: the last
# command misses the mutants of others.
MUTATION_JOBS ?= 2
MUTATION_KERNELS := push/float push_bulk/float ring/float one_shot/float copy_in/float packet/float two_shot/float nvls_copy_in nvls_zero_copy local_reduce/float rank_barrier/float copy_engine/float
.PHONY: mutation
mutation: ## Break the kernels in every place, see that tests notice, write docs/mutation.md (about 8 minutes)
	rm -rf bin/mutation && mkdir -p bin/mutation
	$(GO) test -c -o bin/mutation/test ./internal/mutation
	printf '%s\n' $(MUTATION_KERNELS) | xargs -P $(MUTATION_JOBS) -I KERNEL sh -c 'f=bin/mutation/$$(echo KERNEL | tr / _); \
	  bin/mutation/test -test.run TestMutants -test.timeout 6h -mutation.workers 1 -mutation.kernels KERNEL -mutation.save $$f.json >$$f.log 2>&1 || tail -n 20 $$f.log'
	bin/mutation/test -test.run TestMutants -mutation.outcomes $$(echo bin/mutation/*.json | tr ' ' ,) -mutation.report docs/mutation.md

.PHONY: bench
bench: ## Go benchmarks: software device, launch path
	$(GO) test -run '^$$' -bench . -benchtime 1s ./internal/...

.PHONY: soak
soak: packages ## Every fault at every stage under every launcher; writes docs/failures.md (about 35 minutes)
	NVLS_ALLREDUCE_SOAK=all NVLS_ALLREDUCE_REQUIRE=all $(GO) test -count=1 -v -timeout 2h ./internal/soak

FUZZTIME ?= 10s
.PHONY: fuzz
fuzz: ## Every fuzz target for FUZZTIME (10s) each in 8 GB, with the count of executions
	@ulimit -v 8388608; echo "FUZZTIME=$(FUZZTIME)"; grep -rl --include='*_test.go' '^func Fuzz' . | sort | while read -r f; do \
		sed -n 's/^func \(Fuzz[A-Za-z0-9]*\).*/\1/p' "$$f" | while read -r target; do \
			out=$$($(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$$(dirname "$$f")" 2>&1) || { echo "$$out"; echo "$$f $$target: FAILED"; exit 1; }; \
			echo "$$f $$target: $$(echo "$$out" | sed -n 's/.*execs: \([0-9]*\).*/\1/p' | tail -1) executions"; \
		done || exit 1; \
	done
