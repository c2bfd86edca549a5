#!/bin/sh
# The main job: every mode on 4 ranks, verified, with a chart. On the GPUs of
# this host if there are any, else on the software device.
# usage: run.sh BINARY
set -eu

binary=$1
ranks=4
out=results
mkdir -p "$out"

gpus=0
if command -v nvidia-smi >/dev/null 2>&1; then
  gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)
fi
if [ "$gpus" -gt 0 ]; then
  echo "== $gpus GPUs found: measuring on them"
  set -- --config compare-all --fallback allow
  [ "$gpus" -ge "$ranks" ] || {
    echo "== $ranks ranks share $gpus GPUs: function only, no measurement"
    set -- --config quick --fallback allow --share-gpu
  }
else
  echo "== no GPU found: SIMULATED on the software device; no number below is a measurement of hardware"
  set -- --config quick --device sim
fi
set -- "$@" -J "$out/result.json" --csv "$out/result.csv" --plot "$out/bandwidth.png"

if command -v mpirun >/dev/null 2>&1; then
  echo "== $ranks ranks by $(mpirun --version 2>/dev/null | grep -m 1 -iE 'version|mpi' | tr -s ' ')"
  if mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    # More ranks than cores is usual on a laptop, and root in a container.
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
  fi
  mpirun -np "$ranks" "$binary" "$@"
else
  echo "== $ranks ranks by the program's own launcher (no mpirun found)"
  "$binary" --np "$ranks" "$@"
fi
echo "== chart: $out/bandwidth.png"
