#!/usr/bin/env bash
# Runs every mode that needs no multicast, with every data type and operation,
# verified, on the GPUs of this host: one rank a GPU, or --share-gpu where there
# are more ranks than GPUs. Multicast is switched off for all of it.
#
# usage: function.sh OUTPUT_FOLDER [RANKS ...]      (default ranks: 1 2 3 4)
# BINARY names the program (default bin/nvls-allreduce), MPIRUN the launcher, TYPES
# and OPS the data types and operations (default all).
set -euo pipefail

if (($# < 1)); then
  sed -n 's/^# \{0,1\}//; 2,/^set/{/^set/!p}' "$0" >&2
  exit 6
fi

out=$1
shift
ranks=("${@:-}")
[[ -n ${ranks[0]} ]] || ranks=(1 2 3 4)
here=$(dirname "$0")
binary=${BINARY:-bin/nvls-allreduce}
read -ra launcher <<<"${MPIRUN:-mpirun --oversubscribe}"
export NVLS_ALLREDUCE_MULTICAST=off
mkdir -p "$out"

gpus=$(nvidia-smi -L | wc -l)
status=0
for n in "${ranks[@]}"; do
  share=()
  ((n <= gpus)) || share=(--share-gpu)
  # Packets are for small messages; the other modes take all sizes.
  for set in "small -b 0 -e 64 -i 31" "large --mode ring,p2p-one-shot,p2p-two-shot,p2p-push,p2p-push-bulk,p2p-copy-in,p2p-copy-engine -b 4099 -e 5M -f 32"; do
    read -ra sweep <<<"$set"
    name=function-$n-ranks-${sweep[0]}
    sweep=("${sweep[@]:1}")
    start=$SECONDS
    if "${launcher[@]}" -np "$n" -x NVLS_ALLREDUCE_MULTICAST "$binary" --config "$here/function.toml" --fallback allow \
      -d "${TYPES:-all}" -o "${OPS:-all}" "${sweep[@]}" "${share[@]}" -J "$out/$name.json" >"$out/$name.txt" 2>&1; then
      result=ok
    else
      result="exit code $?"
      status=1
    fi
    echo "$n ranks on $gpus GPUs, ${sweep[*]}: $result, $(grep -c '^ ' "$out/$name.txt" || true) rows," \
      "$(grep 'Out of bounds' "$out/$name.txt" || echo 'no total'), $((SECONDS - start)) s"
  done
done
exit $status
