#!/usr/bin/env bash
# Writes the doctor's reports of this host, as text and as JSON: alone, as ranks
# under mpirun, with one visible GPU, and with ranks bound to one GPU each as a
# batch system may do it. Multicast is switched off for all of it.
#
# usage: doctor.sh OUTPUT_FOLDER [RANKS]      (default ranks: 2)
# BINARY names the program (default bin/nvls-allreduce), MPIRUN the launcher.
set -euo pipefail

if (($# < 1)); then
  sed -n 's/^# \{0,1\}//; 2,/^set/{/^set/!p}' "$0" >&2
  exit 6
fi

out=$1
ranks=${2:-2}
here=$(cd "$(dirname "$0")" && pwd)
binary=${BINARY:-$here/../../bin/nvls-allreduce}
read -ra launcher <<<"${MPIRUN:-mpirun --oversubscribe}"
export NVLS_ALLREDUCE_MULTICAST=off
mkdir -p "$out"

# report NAME COMMAND... runs the doctor both ways. Its exit code is part of the
# report: 0 when the wanted modes will run, 3 when not.
report() {
  local name=$1 code=0 start=$SECONDS
  shift
  "$@" >"$out/doctor-$name.txt" 2>"$out/doctor-$name.err" || code=$?
  "$@" --json >"$out/doctor-$name.json" 2>>"$out/doctor-$name.err" || true
  [[ -s $out/doctor-$name.err ]] || rm "$out/doctor-$name.err"
  echo "$name: exit code $code, $((SECONDS - start)) s"
  head -n 1 "$out/doctor-$name.txt"
}

world=("${launcher[@]}" -np "$ranks" -x NVLS_ALLREDUCE_MULTICAST)
report alone "$binary" doctor
report alone-ring "$binary" doctor --mode ring,p2p
report np "$binary" doctor --np "$ranks" --mode ring,p2p
report mpirun "${world[@]}" "$binary" doctor --mode ring,p2p
report one-gpu env CUDA_VISIBLE_DEVICES=0 "$binary" doctor --mode ring,p2p
report mpirun-share-gpu env CUDA_VISIBLE_DEVICES=0 "${world[@]}" -x CUDA_VISIBLE_DEVICES "$binary" doctor --mode ring,p2p --share-gpu
# Each rank sees its own GPU only. Where there is one, both take it.
# shellcheck disable=SC2016 # for the shell of the rank
report mpirun-bound "${world[@]}" bash -c 'CUDA_VISIBLE_DEVICES=$OMPI_COMM_WORLD_LOCAL_RANK exec "$0" "$@"' "$binary" doctor --mode ring,p2p
