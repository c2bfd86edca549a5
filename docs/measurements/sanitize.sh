#!/usr/bin/env bash
# compute-sanitizer's memcheck and racecheck over every kernel that needs no
# multicast: two ranks, sharing one GPU where there is only one.
#
# usage: sanitize.sh OUTPUT_FILE
# BINARY names the program (default bin/nvls-allreduce), MPIRUN the launcher, FLAGS
# more flags: --share-gpu where fewer GPUs are visible than the host has.
set -euo pipefail

if (($# < 1)); then
  sed -n 's/^# \{0,1\}//; 2,/^set/{/^set/!p}' "$0" >&2
  exit 6
fi

out=$1
binary=${BINARY:-bin/nvls-allreduce}
read -ra launcher <<<"${MPIRUN:-mpirun --oversubscribe}"
export NVLS_ALLREDUCE_MULTICAST=off
read -ra share <<<"${FLAGS:-}"
(($(nvidia-smi -L | wc -l) >= 2)) || share+=(--share-gpu)

: >"$out"
status=0
for tool in memcheck racecheck; do
  for type in ${TYPES:-float half int8}; do
    echo "== $tool, $type" >>"$out"
    if ! "${launcher[@]}" -np 2 -x NVLS_ALLREDUCE_MULTICAST compute-sanitizer --tool "$tool" --error-exitcode 99 --target-processes all \
      "$binary" "${share[@]}" --mode ring,p2p-one-shot,p2p-two-shot,p2p-push,p2p-push-bulk,p2p-packet,p2p-copy-in,p2p-copy-engine --fallback allow \
      -b 3 -e 60K -f 97 -n 1 -w 1 -d "$type" -o "${OPS:-sum,max}" >>"$out" 2>&1; then
      status=1
    fi
  done
done
grep -E '^==|ERROR SUMMARY|RACECHECK SUMMARY|Out of bounds' "$out"
exit $status
