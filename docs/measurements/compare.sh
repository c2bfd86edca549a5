#!/usr/bin/env bash
# A whole comparison on the GPUs of this host, one rank a GPU, in under 5 minutes:
# tunes mode auto, measures it beside p2p, the ring, NCCL and NCCL's symmetric kernels
# with and without CUDA graphs, in several data types, and every p2p and NVLS mode
# at large sizes; all verified. Goals are parts of the faster peer's
# time, by number of ranks (GOALS); bfloat16 and half 1.03 of float; copy-in 1.10 of
# zero-copy. Leaves JSON, logs, charts, a report and summary.txt with the ratio
# tables, which it prints too. A step that fails, or takes too long, costs its own
# rows only. The exit code is that of the first step that failed.
#
# usage: compare.sh OUTPUT_FOLDER [RANKS]            (default: all GPUs)
# BINARY   the program (bin/nvls-allreduce)
# MPIRUN   the launcher (mpirun --bind-to none), or "own" for the program's own
# FLAGS    more flags for every run: --nccl-library FILE, --device sim
# MIN MAX  smallest and largest size (1K, 1G); TUNE_MAX up to which auto is tuned
#          (256M, at most MAX), LARGE from which every mode is shown (16M)
# TYPES    data types, by commas; the first one gets every step (float,bfloat16,half)
# CYCLES   repetitions of each sweep; medians need 6 for an interval (6)
# ITERS    timed runs of each size (20), GRAPHS launches of a graph of so many (10)
# GOALS    of auto against NCCL: 1K:16K=0.90 64K:16M=0.80 64M:256M=0.85 1G=0.909 for
#          2 ranks
# LIMIT    seconds for all runs (290)
# ARCHIVE  a .tar.gz to pack the folder into
# Multicast is left alone unless a site switch is set; then NCCL gets it off too.
set -euo pipefail

if (($# < 1 || $# > 2)); then
  sed -n 's/^# \{0,1\}//; 2,/^set/{/^set/!p}' "$0" >&2
  exit 6
fi
out=$1
ranks=${2:-$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)}
if ! [[ $ranks =~ ^[1-9][0-9]*$ ]]; then
  echo "compare.sh: nvidia-smi names no GPU: give the number of ranks, and for the software device FLAGS='--device sim'" >&2
  exit 6
fi
binary=${BINARY:-bin/nvls-allreduce}
read -ra mpirun <<<"${MPIRUN:-mpirun --bind-to none}"
read -ra flags <<<"${FLAGS:-}"
min=${MIN:-1K} max=${MAX:-1G} tune_max=${TUNE_MAX:-256M} large=${LARGE:-16M}
(($(numfmt --from=iec "$tune_max") <= $(numfmt --from=iec "$max"))) || tune_max=$max
types=${TYPES:-float,bfloat16,half}
first=${types%%,*} others=
[[ $types != *,* ]] || others=${types#*,}
cycles=${CYCLES:-6} iters=${ITERS:-20} graphs=${GRAPHS:-10} limit=${LIMIT:-290}
case $ranks in
  1 | 2) wanted='1K:16K=0.90 64K:16M=0.80 64M:256M=0.85 1G=0.909' ;;
  3 | 4) wanted='1K:16M=0.80 64M:256M=0.90 1G:4G=0.952' ;;
  *) wanted='1K:4M=0.80 16M:256M=0.95 1G:4G=0.98' ;;
esac
read -ra wanted <<<"${GOALS:-$wanted}"
peers='nccl|nccl-symmetric'
mkdir -p "$out"
# Root in a container is usual.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
if [[ ${mpirun[0]} == own ]]; then
  launch=("$binary" run --np "$ranks")
else
  launch=("${mpirun[@]}" -np "$ranks" "$binary" run)
fi

failed=0 # exit code of the first step that failed
code=0   # of the last one
step() { # NAME SECONDS FLAGS...: one run, stopped after so many seconds
  local name=$1 most=$2 left=$((limit - SECONDS)) start=$SECONDS
  code=0
  shift 2
  if ((left < 1)); then
    echo "== $name: LEFT OUT, $SECONDS s of $limit s (LIMIT) are over"
    code=4
    ((failed)) || failed=$code
    return
  fi
  ((most < left)) || most=$left
  echo "== $name: started at $start s, at most $most s"
  # SIGTERM makes the program write what it has; 20 s later nothing is left of it.
  timeout -k 20 "$most" "${launch[@]}" "$@" "${flags[@]}" -J "$out/$name.json" </dev/null >"$out/$name.txt" 2>&1 || code=$?
  case $code in
    0) ;;
    124 | 137)
      echo "   STOPPED after $most s; what it measured until then counts"
      code=4
      ;;
    *) echo "   exit code $code: $(grep -m 1 '^nvls-allreduce: ' "$out/$name.txt" || tail -n 1 "$out/$name.txt")" ;;
  esac
  ((failed)) || failed=$code
  grep -E '^# (Links,|Mode (nccl|nvls|p2p)[a-z-]*[,:]|Out of bounds|  [a-z0-9, -]+: average)' "$out/$name.txt" | sort -u | cut -c 1-200 | sed 's/^#/  /' || true
  echo "   $((SECONDS - start)) s"
}

# goals SIZES=PART...: the flags for those of which any size is measured.
goals() {
  local g from to
  for g in "$@"; do
    from=${g%=*} to=${g%=*}
    from=$(numfmt --from=iec "${from%:*}") to=$(numfmt --from=iec "${to#*:}")
    if ((from <= $(numfmt --from=iec "$max") && to >= $(numfmt --from=iec "$min"))); then
      printf -- '--goal\n%s\n' "$g"
    fi
  done
}

# ratios TITLE A B FLAGS...: adds a table of B against A, by times as nccl-tests
# takes them, to ratios.md; show prints its rows out of place too.
ratios() {
  local title=$1 a=$2 b=$3 code=0
  shift 3
  [[ -s $out/$a.json && -s $out/$b.json ]] || { echo "== $title: no table, a step left no result"; return 1; }
  { echo "## $title"; echo; } >>"$out/ratios.md"
  "$binary" compare "$out/$a.json" "$out/$b.json" --averages --format markdown "$@" >>"$out/ratios.md" 2>"$out/why" || code=$?
  # 7 is a goal that was missed, as the table says.
  ((code == 0 || code == 7)) || { echo "== $title: no table: $(cut -d ' ' -f 2- "$out/why" | tee -a "$out/ratios.md")"; return 1; }
}

show() { # as ratios
  ratios "$@" || return
  local title=$1 a=$2 b=$3
  shift 3
  echo
  echo "== $title"
  "$binary" compare "$out/$a.json" "$out/$b.json" --averages --format brief --placement out-of-place "$@" 2>&1 |
    grep -vE '^(A = |B = |Method: |Rows with |Only in |Of several |Goals |nvls-allreduce: goal missed|$)' || true
}

chart() { # NAME TITLE FLAGS...
  local name=$1 title=$2
  shift 2
  [[ ! -s $out/$name.json ]] || "$binary" plot "$out/$name.json" -o "$out/$name.png" --title "$title" "$@" || echo "   no chart of $name"
}

gpus() { # temperatures and clocks, to see throttling
  nvidia-smi --query-gpu=index,name,temperature.gpu,clocks.sm,clocks.max.sm,power.draw --format=csv,noheader 2>/dev/null | sed 's/^/   GPU /' || true
}

measure() {
  local tuning=() modes mode all=(-b "$min" -e "$max" -f 4 -n "$iters" -N "$cycles")
  "$binary" version | head -n 2 | paste -sd ' '
  gpus
  # Nothing of an earlier run may pass for one of this.
  rm -rf "$out"/{tune,times,graph,modes,types,types-graph}.{json,txt,png} "$out"/{tuning.toml,ratios.md,report}
  # In graphs, where the host's time to launch hides nothing.
  step tune 80 --mode auto -d "$first" -G 1 -b "$min" -e "$tune_max" -f 4 -n "$iters" --save-tuning "$out/tuning.toml"
  # Half a tuning would give large messages the ways of small ones.
  if ((code == 0)); then
    tuning=(--tuning "$out/tuning.toml")
  else
    echo "   auto is not tuned: it measures by itself which mode to take"
  fi
  step times 90 --config compare-nccl -d "$first" "${all[@]}" "${tuning[@]}"
  step graph 120 --config compare-nccl -d "$first" -G "$graphs" "${all[@]}" "${tuning[@]}"
  # As the program lists them, so that none is forgotten.
  modes=$("$binary" --help | grep -oE '\b(p2p|nvls)-[a-z-]+\b' | grep -vx 'nvls-allreduce' | sort -u | paste -sd ,)
  step modes 90 --mode "$modes" --fallback allow -d "$first" -b "$large" -e "$max" -f 4 -n "$iters" -N "$cycles"
  if [[ -n $others ]]; then
    step types-graph 120 --config compare-nccl -d "$others" -G "$graphs" "${all[@]}" "${tuning[@]}"
    step types 120 --config compare-nccl -d "$others" "${all[@]}" "${tuning[@]}"
  fi
  gpus

  local flag title="auto against the faster of nccl and nccl-symmetric"
  # A mode that was replaced, took none of the sizes, or is NCCL's where it cannot
  # run has no rows, and the steps have said so.
  has() { grep -qs "\"mode\": \"$2" "$out/$1.json"; }
  mapfile -t flag < <(goals "$large:$max=1.10")
  if has modes nvls-zero-copy && has modes nvls-copy-in; then
    show "copy-in against zero-copy, NVLS" modes modes --modes nvls-zero-copy,nvls-copy-in "${flag[@]}" || true
  fi
  show "copy-in against zero-copy, between peers" modes modes --modes p2p-two-shot,p2p-copy-in "${flag[@]}" || true
  mapfile -t flag < <(goals "$min:$max=1.03")
  for type in ${others//,/ }; do
    show "auto: $type against $first at the same bytes, graph" graph types-graph --modes auto,auto --types "$first,$type" "${flag[@]}" || true
  done
  if has times nccl; then
    for mode in ${modes//,/ }; do
      has modes "$mode\"" || continue
      ratios "$mode against the faster of nccl and nccl-symmetric" times modes --modes "$peers,$mode" || true
    done
    mapfile -t flag < <(goals "${wanted[@]}")
    if [[ -n $others ]]; then
      show "$title, other types, graph" types-graph types-graph --modes "$peers,auto" "${flag[@]}" || true
      show "$title, other types, no graph" types types --modes "$peers,auto" "${flag[@]}" || true
    fi
    show "$title, graph" graph graph --modes "$peers,auto" "${flag[@]}" || true
    show "$title, no graph" times times --modes "$peers,auto" "${flag[@]}" || true
  else
    show "auto against the ring" times times --modes ring,auto || true
  fi
  rm -f "$out/why"

  echo
  chart times "$ranks ranks, $first" --kind busbw,speedup
  chart graph "$ranks ranks, $first, CUDA graphs" --kind time,speedup
  chart types-graph "$ranks ranks, ${others//,/ and }, CUDA graphs" --kind time,speedup
  chart types "$ranks ranks, ${others//,/ and }" --kind busbw,speedup
  chart modes "$ranks ranks, $first, every mode" --kind busbw
  local results=()
  for name in times graph types-graph types modes; do
    [[ ! -s $out/$name.json ]] || results+=("$out/$name.json")
  done
  ((${#results[@]} == 0)) || "$binary" report "${results[@]}" -o "$out/report" || echo "   no report"
  echo "== done after $SECONDS s, exit code $failed: $out/summary.txt, ratios.md, *.json, *.png, report/"
  return "$failed"
}

measure 2>&1 | tee "$out/summary.txt" || code=$?
if [[ -n ${ARCHIVE:-} ]]; then
  # By way of another file, for it may lie in the folder.
  whole=$(mktemp)
  tar -czf "$whole" --exclude='./*.tar.gz' -C "$out" .
  mv "$whole" "$ARCHIVE"
  echo "== $ARCHIVE: $(stat -c %s "$ARCHIVE") bytes"
fi
exit "$code"
