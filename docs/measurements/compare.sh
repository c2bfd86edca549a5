#!/usr/bin/env bash
# A whole comparison on the GPUs of this host, one rank a GPU: tunes mode auto,
# then measures it beside the ring, NCCL and NCCL's symmetric kernels, with and
# without CUDA graphs, verified. Leaves JSON, charts, a report and ratio tables.
#
# usage: compare.sh OUTPUT_FOLDER [RANKS]            (default: all GPUs)
# BINARY, MPIRUN, TYPES, MAX (largest size) and CYCLES can be set. Multicast is
# left alone unless a site switch is set; then NCCL gets it off too.
set -euo pipefail

out=$1
ranks=${2:-$(nvidia-smi -L | wc -l)}
binary=${BINARY:-bin/nvls-allreduce}
read -ra launcher <<<"${MPIRUN:-mpirun}"
mkdir -p "$out"

run() { # NAME FLAGS...
  local name=$1 start=$SECONDS code=0
  shift
  "${launcher[@]}" -np "$ranks" "$binary" "$@" -J "$out/$name.json" >"$out/$name.txt" 2>&1 || code=$?
  echo "$name: exit code $code, $((SECONDS - start)) s, $(grep 'Out of bounds' "$out/$name.txt" || echo 'no total')"
  grep -E '^# (Links,|Mode nccl)' "$out/$name.txt" | sort -u || true
}

run tune --mode auto -b 1K -e "${MAX:-1G}" -f 4 -n 20 --save-tuning "$out/tuning.toml"
for type in ${TYPES:-float bfloat16}; do
  for graph in 0 10; do
    run "$type-graph$graph" --config compare-nccl --tuning "$out/tuning.toml" -d "$type" -b 1K -e "${MAX:-1G}" -f 4 -n 20 \
      -G "$graph" -N "${CYCLES:-6}"
    for peer in nccl nccl-symmetric ring; do
      for mode in auto p2p; do
        "$binary" compare --modes "$peer,$mode" --format markdown "$out/$type-graph$graph.json" "$out/$type-graph$graph.json" \
          >>"$out/$type-graph$graph.md" || echo "no comparison of $mode with $peer in $type-graph$graph"
      done
    done
  done
  "$binary" plot "$out/$type-graph0.json" -o "$out/$type.png" --kind busbw,speedup --title "$ranks ranks, $type" || echo "no chart of $type"
  "$binary" plot "$out/$type-graph10.json" -o "$out/$type-graph.png" --kind time,speedup --title "$ranks ranks, $type, CUDA graphs" || echo "no chart of $type with graphs"
done
"$binary" report "$out"/*-graph*.json -o "$out/report"
