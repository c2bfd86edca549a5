#!/usr/bin/env bash
# Whether mode nccl measures what nccl-tests measures: the all_reduce_perf that is
# named and this program's mode nccl with the same sizes, iterations, cycles and
# graphs, one rank a GPU, with the ratio of their times at each size. From 1M up
# they should be within 5 % either way. The exit code is 0 when they are, 7 when
# not, else that of what failed.
#
# usage: nccl-tests.sh ALL_REDUCE_PERF OUTPUT_FOLDER [RANKS]      (default: all GPUs)
# ALL_REDUCE_PERF must be built with MPI (MPI=1), of nccl-tests 2.14 or later.
# BINARY   the program (bin/nvls-allreduce)
# MPIRUN   the launcher of both (mpirun --bind-to none)
# FLAGS    more flags for mode nccl: --nccl-library FILE for the NCCL that
#          ALL_REDUCE_PERF uses
# MIN MAX  smallest and largest size (1K, 1G)
# TYPE     data type (float)
# CYCLES   repetitions of the sweep, of which the median counts (6)
# ITERS    timed runs of each size (20)
# GRAPHS   numbers of graph launches to measure with, 0 for none (0 10)
# LIMIT    seconds for each run (60)
set -euo pipefail

if (($# < 2 || $# > 3)); then
  sed -n 's/^# \{0,1\}//; 2,/^set/{/^set/!p}' "$0" >&2
  exit 6
fi
perf=$1 out=$2
ranks=${3:-$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)}
if ! [[ $ranks =~ ^[1-9][0-9]*$ ]]; then
  echo "nccl-tests.sh: nvidia-smi names no GPU: give the number of ranks" >&2
  exit 6
fi
if ! command -v "$perf" >/dev/null; then
  echo "nccl-tests.sh: $perf is no program: build nccl-tests with MPI=1 and name its build/all_reduce_perf" >&2
  exit 6
fi
binary=${BINARY:-bin/nvls-allreduce}
read -ra mpirun <<<"${MPIRUN:-mpirun --bind-to none}"
read -ra flags <<<"${FLAGS:-}"
read -ra graphs <<<"${GRAPHS:-0 10}"
type=${TYPE:-float} limit=${LIMIT:-60} max=${MAX:-1G}
same=(-b "${MIN:-1K}" -e "$max" -f 4 -n "${ITERS:-20}" -w 5 -c 1 -N "${CYCLES:-6}" -d "$type" -o sum)
mkdir -p "$out"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

status=0
worse() { ((status)) || status=$1; }

start() { # LOG PROGRAM FLAGS...
  local log=$1 begin=$SECONDS code=0
  shift
  timeout -k 20 "$limit" "${mpirun[@]}" -np "$ranks" "$@" </dev/null >"$log" 2>&1 || code=$?
  echo "   $(basename "$1"): exit code $code, $((SECONDS - begin)) s"
  ((code == 0)) || { tail -n 3 "$log" | cut -c 1-300; worse "$code"; }
}

compare() { # A B FLAGS...: times of B as parts of A's
  local a=$1 b=$2
  shift 2
  "$binary" compare "$out/$a.json" "$out/$b.json" --averages --goal "1M:$max=1.05" "$@"
}

for g in "${graphs[@]}"; do
  theirs=nccl-tests-graph$g ours=mode-nccl-graph$g code=0
  rm -f "$out/$theirs".{txt,json} "$out/$ours".{txt,json}
  echo "== $type, graph launches: $g"
  start "$out/$theirs.txt" "$perf" "${same[@]}" -g 1 -G "$g"
  start "$out/$ours.txt" "$binary" --mode nccl "${same[@]}" -G "$g" "${flags[@]}" -J "$out/$ours.json"
  "$binary" import "$out/$theirs.txt" -o "$out/$theirs.json" || { worse $?; continue; }
  [[ -s $out/$ours.json ]] || { echo "   mode nccl left no result"; continue; }
  compare "$theirs" "$ours" --format brief 2>&1 | grep -vE '^(Method: |nvls-allreduce: goal missed)' || true
  # Neither may take more than 1.05 of the other's time.
  if compare "$theirs" "$ours" >/dev/null 2>"$out/why" && compare "$ours" "$theirs" >/dev/null 2>>"$out/why"; then
    echo "== graph launches $g: within 5 % from 1M up"
  else
    echo "== graph launches $g: NOT within 5 % from 1M up"
    cut -d ' ' -f 2- "$out/why"
    worse 7
  fi
  rm -f "$out/why"
done
exit "$status"
