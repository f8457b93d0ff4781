#!/usr/bin/env bash
# The CUDA backend on a machine with a GPU: parity first, then timings. Everything it needs but PyTorch is beside
# it (no Go, no toolkit); `make gpu` packs it. Prints to the terminal and to result-HOST.txt; the figures go to
# result-HOST.json, to be committed.
#   ./run.sh                full: on the first GPU
#   ./run.sh full parity    only that, or only timings, or older (the kernels of older GPUs, on this one), where a machine
#                           is lent for minutes
#   ./run.sh small          reduced shapes, for the stand-in driver that is packed too: a test of this script
# PYTHON names the Python with torch, transformers and diffusers (python3); none: no comparison with PyTorch. What tests
# say in full goes to result-HOST.parity, PyTorch's words to result-HOST.log. Where parity is not shown there are no timings.
set -euo pipefail
from=$PWD
cd "$(dirname "$0")"
size=${1:-full}
part=${2:-all}
python=${PYTHON-python3}
case $python in /* | '') ;; */*) python=$from/$python ;; esac
torch=cuda
if [ "$size" = small ]; then
	export LATENTBEAM_LIBCUDA="$PWD/libfakecuda.so" LATENTBEAM_LIBCUBLASLT="$PWD/libfakecuda.so" TORCH_MODE=default
	torch=cpu
fi
host=$(uname -n)
# Where the user has no home to write to, the driver keeps what it compiles here: every process would compile it again.
[ -w "${HOME:-/nowhere}" ] || { mkdir -p cache && export CUDA_CACHE_PATH="$PWD/cache"; }
# cublasLt and NCCL of a Python that is nowhere where they are looked for.
libraries='import glob, nvidia; print(":".join(p for d in nvidia.__path__ for p in glob.glob(d + "/*/lib")))'
if [ "$size" != small ] && [ -n "$python" ] && found=$("$python" -c "$libraries" 2>/dev/null) && [ -n "$found" ]; then
	export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$found"
fi

machine() {
	echo "== machine, $(date -u +%Y-%m-%dT%H:%MZ), commit $(cat commit)"
	nvidia-smi --query-gpu=name,driver_version,memory.total,power.limit --format=csv 2>/dev/null || true
	./latentbeam doctor || true
}

# tested NAME COMMAND... runs tests, shows one line for each, and at the end what those said that failed. A kernel that broke
# the context may have taken what came after it with it, so what failed runs again, each in a process of its own.
wrong=
tested() {
	local name=$1 failed=
	shift
	set -- env "LATENTBEAM_CUDA_PATIENCE=${LATENTBEAM_CUDA_PATIENCE:-2m}" "$@" -test.timeout 30m # what hangs is known soon
	echo "== $name"
	"$@" 2>&1 | tee "result-$host.last" | { grep --line-buffered -E '^(---|    ---|PASS|FAIL|ok)| WARN ' || true; } || failed=yes
	cat "result-$host.last" >> "result-$host.parity"
	[ -n "$failed" ] || return 0
	wrong="$wrong${wrong:+; }$name"
	echo "what the tests say:"
	grep -vE '^ *(=== |--- (PASS|SKIP))' "result-$host.last" | head -200 || true
	failed=$(grep -oE '^(    )?--- FAIL: [^ ]+' "result-$host.last" | sed 's/.* //' | sort -u || true)
	for test in $failed; do
		case $failed in *"$test/"*) continue ;; esac
		if "$@" -test.run "^${test//\//\$/^}\$" >> "result-$host.parity" 2>&1; then
			echo "$test alone passes"
		else
			echo "$test alone fails"
		fi
	done
}

suite=TestSuite
[ "$size" = full ] || suite='TestSuite/(Transfer|Linear)'

parity() {
	: > "result-$host.parity"
	if [ "$size" = small ]; then
		tested "some kernels" ./kernels.test -test.v -test.run "$suite|TestPeers|TestManyBackends"
	else
		tested "every kernel against float64, its bits alone and among others, peers, errors" \
			./kernels.test -test.v -test.skip '^TestCublasLt$'
	fi
	tested "the built-in model from prompt to video against the CPU, and on two devices where there are two" \
		"$PWD/latentbeam.test" -test.v -test.run TestTinyOnCUDA
	grep -E 'latents differ' "result-$host.last" || true
	local shown=$wrong
	[ "$size" = small ] || tested "the same with cublasLt, where it is found: an option, whose failures do not end this" \
		env LATENTBEAM_CUBLASLT=1 ./kernels.test -test.v
	wrong=$shown
	[ -z "$wrong" ] || { echo "== parity is not shown: $wrong (run.sh full timings and run.sh full older go on)"; return 1; }
}

# comes_before says whether compute capability $1 is older than $2.
comes_before() { [ "$1" != "$2" ] && [ "$(printf '%s\n' "$1" "$2" | sort -V | head -1)" = "$1" ]; }

# older runs the code for other GPUs on this one, which can do all of it.
older() {
	local capability
	capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 || true)
	[ "$size" = full ] || capability=8.0 # the stand-in's
	[ -n "$capability" ] || echo "== what this GPU can do nvidia-smi does not say: nothing of older ones is run"
	if [ "$capability" = 9.0 ]; then
		tested "the kernels without warpgroups" env LATENTBEAM_WGMMA=0 ./kernels.test -test.v -test.run "$suite"
	fi
	for as in 8.0 7.5; do
		if comes_before "$as" "$capability"; then
			tested "the kernels of compute capability $as, on this GPU" \
				env LATENTBEAM_CUDA_AS=$as ./kernels.test -test.v -test.run "$suite"
		fi
	done
}

timings() {
	echo "== timings: whole steps, ours, ours with cublasLt, and the same models in PyTorch on this GPU"
	rounds=10
	[ "$size" = full ] || rounds=1
	./timings -size "$size" -rounds "$rounds" -python "$python" -torch-device "$torch" -json "result-$host.json" \
		2> "result-$host.log" || { tail -20 "result-$host.log"; return 1; } # PyTorch has much to say
}

{
	machine
	case $part in all | parity) parity ;; esac # not behind ||, where failures do not end it
	case $part in all | timings) timings || wrong=timings ;; esac
	case $part in all | older) older ;; esac
	[ -z "$wrong" ] || { echo "== not shown: $wrong"; exit 1; }
} 2>&1 | tee "result-$host.txt"
