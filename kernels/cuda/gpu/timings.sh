#!/usr/bin/env bash
# Times what a step consists of, best of several rounds, and multiplies by how many of it there are. Embeddings and
# the last layer, which are below 2 %, are left out.
set -euo pipefail
cd "$(dirname "$0")"
export LATENTBEAM_BENCH_BLOCKS=1 LATENTBEAM_BENCH_DEVICE=cuda:0
rounds=20

# best STAGE CASE: milliseconds of one
best() {
	i=0
	while [ "$i" -lt "$rounds" ]; do
		echo "$2"
		i=$((i + 1))
	done | "./$1.test" -test.run 'TestMeasure(Block|Decode)' -test.timeout 0 |
		awk '$1 == "seconds" {if (!n++ || $2 < b) b = $2} /FAIL|fatal/ {bad = 1} END {if (n && !bad) printf "%.3f", 1000 * b}'
}

# row NAME STAGE CASE TIMES FLOOR TARGET
row() {
	ms=$(best "$2" "$3")
	if [ -z "$ms" ]; then
		printf '%-48s failed\n' "$1"
		return
	fi
	awk -v name="$1" -v ms="$ms" -v times="$4" -v floor="$5" -v target="$6" 'BEGIN {
		printf "%-48s %10.2f ms = %2d x %9.3f ms   floor %7s   target on an H200 %7s\n", name, ms * times, times, ms, floor, target}'
}

if [ "${1:-full}" = small ]; then
	rounds=1
	echo "(emulated: these figures say nothing)"
	row "STDiT block, 2x4x4 (reduced)" stdit "1.0 2x4x4 3 bf16" 1 - -
	row "VAE decode, 1 frame 8x8 (reduced)" vae "1x1x1 1 bf16" 1 - -
	exit
fi
row "STDiT-XL/2 16x512x512, guidance step" stdit "1.0 16x64x64 120 bf16" 28 71.4 89
row "STDiT-XL/2 16x256x256, guidance step" stdit "1.0 16x32x32 120 bf16" 28 17.0 20
row "STDiT3 720p 51 frames, guidance step" stdit "1.2 15x90x160 300 bf16" 28 414 546
row "STDiT3 240p 51 frames, guidance step" stdit "1.2 15x30x53 300 bf16" 28 40.5 49
row "T5-v1.1-xxl 120 tokens" t5 "120 bf16" 24 2.33 2.75
row "T5-v1.1-xxl 300 tokens" t5 "300 bf16" 24 3.76 4.4
row "AutoencoderKL decode, 16 frames 512x512" vae "16x64x64 16 bf16" 1 63 88
