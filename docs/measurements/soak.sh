#!/usr/bin/env bash
# Random sizes, data types and operations through every mode that needs no
# multicast, verified bit for bit, for as long as it is told.
#
# usage: soak.sh OUTPUT_FILE SECONDS [RANKS]         (default ranks: 2)
# BINARY names the program (default bin/nvls-allreduce), MPIRUN the launcher.
set -euo pipefail

if (($# < 2)); then
  sed -n 's/^# \{0,1\}//; 2,/^set/{/^set/!p}' "$0" >&2
  exit 6
fi

out=$1
seconds=$2
ranks=${3:-2}
binary=${BINARY:-bin/nvls-allreduce}
read -ra launcher <<<"${MPIRUN:-mpirun --oversubscribe}"
export NVLS_ALLREDUCE_MULTICAST=off
share=()
((ranks <= $(nvidia-smi -L | wc -l))) || share=(--share-gpu)
types=(int8 uint8 int32 uint32 int64 uint64 half float double bfloat16)
modes=ring,p2p-one-shot,p2p-two-shot,p2p-push,p2p-push-bulk,p2p-packet,p2p-copy-in,p2p-copy-engine
ops=(sum prod max min avg)

: >"$out"
rows=0 runs=0 bad=0
while ((SECONDS < seconds)); do
  t=$((RANDOM % ${#types[@]}))
  type=${types[t]},${types[(t + 1 + RANDOM % (${#types[@]} - 1)) % ${#types[@]}]}
  op=${ops[RANDOM % ${#ops[@]}]}
  first=$((RANDOM % 5000)) step=$((RANDOM * (RANDOM % 64) + 1))
  blocks=$((RANDOM % 3 * (RANDOM % 33))) # 0, automatic, at least every third time
  args=("${share[@]}" --fallback allow --mode "$modes" -d "$type" -o "$op"
    -b "$first" -e $((first + 3 * step)) -i "$step" -n 1 -w 1 -c 3 --blocks "$blocks")
  if ! "${launcher[@]}" -np "$ranks" -x NVLS_ALLREDUCE_MULTICAST "$binary" "${args[@]}" >"$out.run" 2>&1; then
    bad=$((bad + 1))
    { echo "FAILED: ${args[*]}"; cat "$out.run"; } >>"$out"
  fi
  rows=$((rows + $(grep -c '^ ' "$out.run" || true)))
  runs=$((runs + 1))
done
rm -f "$out.run"
echo "$ranks ranks, $SECONDS s: $runs runs, $((rows * 2)) rows (each 3 verified calls), $bad runs failed" | tee -a "$out"
exit $((bad > 0))
