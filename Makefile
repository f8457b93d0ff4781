# latentbeam: everything a developer runs. `make help` lists the targets.
export CGO_ENABLED ?= 0
GO ?= go
# What tests have and the binary has not: the runner prism.
TESTED = -tags prism
# Linked by libraries and used by nothing here: Google's direct paths to storage (it is asked by HTTP), and traces of gRPC as
# pages. Without them the program has 143 packages and 12.5 MB less.
UNUSED = disable_grpc_modules grpcnotrace
PROGRAM = latentbeam
# go test, and at its end what was skipped and why.
TESTS = $(GO) run ./internal/dev/tests
GOLANGCI = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.12.2
# The build with the CUDA backend (needs gcc, no toolkit).
CUDA = CGO_ENABLED=1 CGO_CFLAGS="-O2 -I$(CURDIR)/kernels/cuda/include" CGO_LDFLAGS="-L$(CURDIR)/kernels/cuda/driver/stub"

.DEFAULT_GOAL := help
.PHONY: help build build-cuda wheel image demo test check check-flink check-cuda same race flink lint reference bench nightly cuda gpu

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## the static binary, ./latentbeam
	$(GO) build -trimpath -tags "$(UNUSED)" -ldflags "-s -w" -o $(PROGRAM) ./cmd/latentbeam

build-cuda: ## the binary with the CUDA backend, ./latentbeam-cuda (needs gcc, no toolkit; runs with glibc 2.34 or newer)
	$(CUDA) $(GO) build -trimpath -tags "cuda netgo osusergo $(UNUSED)" -o latentbeam-cuda ./cmd/latentbeam

wheel: ## Python wheels with the program inside, for five platforms, in build/wheels (PLATFORMS=linux/amd64 for one)
	$(GO) run ./internal/dev/release wheel build/wheels $(PLATFORMS)

ARCH ?= $(shell $(GO) env GOARCH)
image: ## a container image of the program without Docker, an OCI layout in build/image (ARCH=arm64; docs/deploy)
	GOOS=linux GOARCH=$(ARCH) $(MAKE) -s build PROGRAM=$(CURDIR)/build/linux-$(ARCH)/latentbeam
	rm -rf build/image
	cd docs/deploy && $(GO) run ./image -binary $(CURDIR)/build/linux-$(ARCH)/latentbeam -arch $(ARCH) -out $(CURDIR)/build/image

demo: ## twelve videos of the built-in model in out/shapes, with their score
	$(GO) run ./cmd/latentbeam run testdata/prompts/shapes.yaml

test: ## tests for any machine: Go is enough (8 minutes on 2 cores); at its end it says what it skipped
	$(TESTS) -promises $(TESTED) -short -vet=off -p 3 -timeout 20m ./pipelines/suites/... ./internal/cli ./internal/storage/store/s3 ./... # the longest first; s3 only waits

check: lint ## the rest that CI proves: the tests that make test skips, a cluster of Flink, CUDA without a GPU
	$(GO) mod verify
	$(TESTS) -rest $(TESTED) -vet=off -p 3 -timeout 30m
	$(TESTS) -C docs/deploy -vet=off ./...
	$(TESTS) -C kernels/cpu/benchmarks -vet=off ./...
	$(MAKE) --jobs 2 --output-sync=target check-flink check-cuda # the first mostly waits

check-flink:
	.ci/flink short

check-cuda:
	@if command -v g++ >/dev/null; then LATENTBEAM_PROVE=quick kernels/cuda/prove; else echo "NOT TESTED: the CUDA backend: there is no g++"; fi

same: ## whole jobs against the record of an earlier commit, in the classes go and avx2 (internal/dev/same/doc.go)
	LATENTBEAM_SAME=$(or $(SAME),all) $(GO) test $(TESTED) -v -count 1 -timeout 30m -run "$(or $(RUN),TestSame)" ./internal/dev/same

race: ## the short tests under the race detector (needs cgo and gcc)
	CGO_ENABLED=1 $(TESTS) $(TESTED) -race -short -timeout 60m ./...

flink: ## the tests on a cluster of Flink, in a network of its own (needs Java 17 and Maven; 150 MB of jars the first time)
	@.ci/flink full

lint: ## golangci-lint (.golangci.yml), go vet (with the tag cuda: make cuda), and the rules of the house
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run gofmt -w on these"; exit 1; }
	GOLANGCI_LINT_CACHE=$(CURDIR)/build/lint $(GO) run $(GOLANGCI) run ./... # its cache holds the folder's path: one for each
	for module in kernels/cpu/gen kernels/cpu/benchmarks docs/deploy; do (cd $$module && $(GO) vet ./...) || exit 1; done
	$(GO) test ./internal/dev/layers/...
	.ci/changes >/dev/null

reference: ## make docs/reference.md from the code
	REFERENCE=write $(GO) test -count 1 -run TestReference ./internal/dev/reference

bench: ## kernels against this machine's peak, the encoder and the row path, in kernels/cpu/benchmarks (PYTHON=python3: and the rivals)
	GO=$(GO) kernels/cpu/benchmarks/record

nightly: ## every promise with its counts of a night, into docs/reliability.md (an hour; PROOFS="-only P1,fuzz -scale 0.1" for less, PROOFS=-release for a day)
	$(GO) run ./internal/dev/proofs $(PROOFS)

cuda: ## what can be shown of the CUDA backend without a GPU and without NVIDIA's toolkit (needs g++)
	kernels/cuda/prove

gpu: ## one bundle for a machine with a GPU: parity of every kernel, then timings against PyTorch (build/gpu/run.sh)
	kernels/cuda/gpu/pack
