#!/bin/bash
# Plans a job, asks, and submits it in N shards: submit.sh job.yaml N
# The model is copied into the shared cache first, once for all nodes. Set LATENTBEAM_CACHE to a directory that they share.
set -euo pipefail

job=${1:?give the job file: submit.sh job.yaml N}
shards=${2:?give the number of shards: submit.sh job.yaml N}
here=$(cd "$(dirname "$0")" && pwd)
: "${LATENTBEAM_CACHE:?set it to a directory that all nodes see}"

# A dry run opens everything: what is wrong with the job is seen here, and not in N logs.
"${LATENTBEAM:-latentbeam}" run "$job" --dry-run

read -r -p "submit in $shards shards? [y/N] " answer
[ "$answer" = y ] || exit 0
sbatch --export=ALL --array="0-$((shards - 1))" "$here/array.sbatch" "$job"
