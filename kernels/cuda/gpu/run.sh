#!/usr/bin/env bash
# The CUDA backend on a machine with a GPU: parity first, then timings. Everything it needs but PyTorch is beside
# it (no Go, no toolkit); `make gpu` packs it. Prints to the terminal and to result-HOST.txt; the figures go to
# result-HOST.json, to be committed.
#   ./run.sh                full: on the first GPU
#   ./run.sh full parity    only that, or only timings, where a machine is lent for minutes
#   ./run.sh small          reduced shapes, for the stand-in driver that is packed too: a test of this script
# PYTHON names the Python with torch, transformers and diffusers (python3); none: no comparison with PyTorch. What tests
# say in full goes to result-HOST.parity, PyTorch's words to result-HOST.log.
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

machine() {
	echo "== machine, $(date -u +%Y-%m-%dT%H:%MZ), commit $(cat commit)"
	nvidia-smi --query-gpu=name,driver_version,memory.total,power.limit --format=csv 2>/dev/null || true
	./latentbeam doctor || true
}

# tested runs tests, shows one line for each, and at the end what those said that failed.
tested() {
	"$@" 2>&1 | tee "result-$host.last" | { grep --line-buffered -E '^(---|    ---|PASS|FAIL|ok)| WARN ' || true; } \
		&& failed= || failed=yes
	cat "result-$host.last" >> "result-$host.parity"
	[ -z "$failed" ] && return
	echo "what the tests say:"
	grep -vE '^ *(=== |--- (PASS|SKIP))' "result-$host.last" | head -200 || true
	return 1
}

parity() {
	: > "result-$host.parity"
	echo "== parity: every kernel against float64, its bits alone and among others, peers, errors"
	if [ "$size" = small ]; then
		tested ./kernels.test -test.v -test.run 'TestSuite/(Transfer|Linear)|TestPeers|TestManyBackends'
	else
		tested ./kernels.test -test.v -test.skip '^TestCublasLt$'
		echo "== the same with cublasLt, where it is found: an option, whose failures do not end this"
		LATENTBEAM_CUBLASLT=1 tested ./kernels.test -test.v || true
	fi

	echo "== the built-in model from prompt to video against the CPU, and on two devices where there are two"
	tested "$PWD/latentbeam.test" -test.v -test.run TestTinyOnCUDA
	grep -E 'latents differ' "result-$host.last" || true
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
	if [ "$part" != timings ]; then parity; fi # not ||, behind which failures do not end it
	if [ "$part" != parity ]; then timings; fi
} 2>&1 | tee "result-$host.txt"
