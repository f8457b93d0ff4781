# latentbeam: everything a developer runs. `make help` lists the targets.
export CGO_ENABLED ?= 0
GO ?= go
# What tests have and the binary has not: the runner prism.
TESTED = -tags prism
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

.DEFAULT_GOAL := help
.PHONY: nightly release-proofs deploy bucket-kills store-schedules help build build-cuda demo eval test same simulate race lint rooms pictures bench flink memory fuzz million cuda gpu host cuda-headers kern ptx ptxas

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## the static binary, ./latentbeam
	$(GO) build -trimpath -ldflags "-s -w" -o latentbeam ./cmd/latentbeam

build-cuda: ## the binary with the CUDA backend, ./latentbeam-cuda (needs gcc, no toolkit; runs with glibc 2.34 or newer)
	CGO_ENABLED=1 CGO_CFLAGS="-O2 -I$(CURDIR)/kernels/cuda/include" CGO_LDFLAGS="-L$(CURDIR)/kernels/cuda/driver/stub" \
		$(GO) build -trimpath -tags "cuda netgo osusergo" -o latentbeam-cuda ./cmd/latentbeam

demo: ## twelve videos of the built-in model in out/shapes, with their score
	$(GO) run ./cmd/latentbeam run testdata/prompts/shapes.yaml

eval: ## score the built-in model on its 96 evaluation prompts (out/eval, several minutes)
	$(GO) run ./cmd/latentbeam run testdata/prompts/eval.yaml

test: ## all tests (a package may take long on a busy machine)
	$(GO) test $(TESTED) -timeout 30m ./pipelines ./internal/cli ./... # the longest first

same: ## whole jobs against the record of an earlier commit, in the classes go and avx2 (internal/same/doc.go)
	LATENTBEAM_SAME=$(or $(SAME),compare) $(GO) test $(TESTED) -v -count 1 -timeout 30m -run "$(or $(RUN),TestSame)" ./internal/same

simulate: ## 10,000 simulated jobs with faults (LATENTBEAM_SEEDS=...), and whether twenty flaws are noticed
	LATENTBEAM_SEEDS=$(or $(LATENTBEAM_SEEDS),10000) $(GO) test -count 1 -timeout 30m -run TestJobs -v ./internal/engine/simulator
	LATENTBEAM_FLAWS=1 $(GO) test -count 1 -timeout 60m -run TestFlaws -v ./internal/engine/simulator

race: ## the short tests under the race detector (needs cgo and gcc)
	CGO_ENABLED=1 $(GO) test $(TESTED) -race -short -timeout 60m ./...

flink: ## the tests on a cluster of Flink, in a network of its own (needs Java 17 and Maven; 150 MB of jars the first time)
	@.ci/flink full

lint: ## gofmt, go vet, staticcheck (staticcheck.conf) and the house plan
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run gofmt -w on these"; exit 1; }
	$(GO) vet ./...
	$(GO) vet $(TESTED) ./runners ./pipelines
	cd kernels/cpu/gen && $(GO) vet ./...
	$(GO) run $(STATICCHECK) $(TESTED) ./...
	$(GO) test ./internal/layers

deploy: ## the recipes of docs/deploy: the image is built and run, manifests decoded, scripts run (a module of its own)
	cd docs/deploy && $(GO) vet ./... && $(GO) test -count 1 ./...

bucket-kills: ## 200 jobs that write to fake buckets, killed with kill -9 and resumed (a long time: KILLS=20 for less)
	LATENTBEAM_BUCKET_KILLS=$$(($(or $(KILLS),200) / 2)) $(GO) test -v -count 1 -timeout 5h -run TestKillAndResumeInBuckets ./pipelines

store-schedules: ## the laws of every store with 2,000 random sequences of calls, with and without faults
	LATENTBEAM_STORE_SCHEDULES=2000 $(GO) test -v -count 1 -timeout 5h -run 'Laws' ./internal/store/dir ./internal/store/gcs ./internal/store/s3

rooms: ## the structure in figures: lines by room, optional interfaces, types of one name
	@$(GO) run ./internal/layers/rooms

reference: ## docs/reference.md, made anew from the code
	REFERENCE=write $(GO) test -count 1 -run TestReference ./internal/reference

pictures: ## the pictures of docs, made anew (needs Chromium)
	$(GO) run ./docs/pictures

bench: ## every kernel against this machine's peak (bench.json), the encoder and the row path
	LATENTBEAM_BENCH=$(CURDIR)/bench.json $(GO) test -count 1 -run TestMeasure -v -timeout 30m ./kernels/cpu
	$(GO) test -run '^$$' -bench . -benchtime 0.3s ./kernels/cpu ./internal/media/h264 ./internal/ledger ./internal/table/read

memory: ## peak memory of models of published size (11 GB of disk in DIR, 12 GB of memory): make memory DIR=/tmp
	LATENTBEAM_MEMORY=$(or $(DIR),/tmp) $(GO) test -count 1 -run "TestMemoryOf|TestMapped|TestStreamedXXL" -v -timeout 30m -p 1 ./stages/stdit ./stages/t5

fuzz: ## the fuzz targets, 30 seconds each
	$(GO) run ./internal/proofs -only fuzz

nightly: ## every promise with its counts of a night, into docs/reliability.md (an hour; PROOFS="-only P1,P9 -scale 0.1" for less)
	$(GO) run ./internal/proofs $(PROOFS)

release-proofs: ## the same with the counts of a release (a day)
	$(GO) run ./internal/proofs -release $(PROOFS)

million: ## a million rows through the pipeline: memory a row, time a row
	LATENTBEAM_MILLION=1000000 $(GO) test -run Million -v -timeout 30m ./pipelines

cuda: ## what can be shown of the CUDA backend without a GPU and without NVIDIA's toolkit (needs g++)
	kernels/cuda/prove

kern: ## the CUDA kernels in their emulation on the CPU: every kernel, three orders of threads
	$(MAKE) -C kernels/cuda/kern emu

kern-sanitize: ## the same under sanitizers, with each load and store watched for races, and shapes by chance (LB_EMU_FUZZ=20)
	$(MAKE) -C kernels/cuda/kern sanitize
	$(MAKE) -C kernels/cuda/kern races

ptx: ## the PTX of the CUDA kernels anew (clang 22, zstd), to be committed with a change of theirs
	$(MAKE) -C kernels/cuda/kern ptx

PTXAS_WHEEL = nvidia-cuda-nvcc==13.0.88
ptxas: ## what NVIDIA's assembler says of the kernels: registers, spills (ptxas from PyPI, or PTXAS=...; not in CI)
	@test -n "$(PTXAS)" || test -x build/nvidia/cu13/bin/ptxas || { mkdir -p build && \
		python3 -m pip download -q --no-deps -d build $(PTXAS_WHEEL) && \
		python3 -m zipfile -e build/nvidia_cuda_nvcc-*.whl build && chmod +x build/nvidia/cu13/bin/ptxas; }
	$(MAKE) -C kernels/cuda/kern ptxas PTXAS=$(or $(PTXAS),$(CURDIR)/build/nvidia/cu13/bin/ptxas)

gpu: ## one bundle for a machine with a GPU: parity of every kernel, then timings against PyTorch (build/gpu/run.sh)
	kernels/cuda/gpu/pack

host: ## what whole models cost the host beside a GPU, behind a driver that computes nothing (needs g++; 1.5 GB of memory)
	$(MAKE) -s -j2 -C kernels/cuda/fake BUILD=$(CURDIR)/build
	LATENTBEAM_HOST=full LATENTBEAM_LIBCUDA=$(CURDIR)/build/libfakecuda.so CGO_ENABLED=1 \
		CGO_CFLAGS="-O2 -I$(CURDIR)/kernels/cuda/include" CGO_LDFLAGS="-L$(CURDIR)/kernels/cuda/driver/stub" \
		$(GO) test -tags "cuda netgo osusergo" -count 1 -v -p 1 -run TestHostShare ./stages/t5 ./stages/stdit ./stages/vae

cuda-headers: ## compare our cuda.h with NVIDIA's: make cuda-headers TOOLKIT="DIR..." (not in CI)
	kernels/cuda/include/check $(or $(TOOLKIT),/usr/local/cuda/include)
