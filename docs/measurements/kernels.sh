#!/usr/bin/env bash
# What NVIDIA's assembler makes of the committed PTX: registers, spills and the
# width of memory accesses of every kernel, for sm_90 and, for portability, sm_80
# and sm_100. Needs ptxas and cuobjdump, no GPU. A spill is hot when the innermost
# loop around it has no barrier of the block, so that it runs once a pack and not
# once a chunk; the exit code is 7 when there is one.
#
# usage: kernels.sh OUTPUT_FILE
set -euo pipefail

if (($# < 1)); then
  sed -n 's/^# \{0,1\}//; 2,/^set/{/^set/!p}' "$0" >&2
  exit 6
fi

out=$(realpath -m "$1")
ptx=$(cd "$(dirname "$0")/../../internal/kernels/ptx" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

assemble() { # architecture, PTX file
  local name
  name=$(basename "$2" .ptx)
  ptxas -arch="$1" -v -o "$work/$1-$name.cubin" "$2" 2>"$work/$1-$name.log" || echo "FAILED: $1 $name: $(head -n 3 "$work/$1-$name.log")"
}
export -f assemble
export work

{
  ptxas --version | tail -n 2 | head -n 1
  # shellcheck disable=SC2016 # the inner shell expands them
  {
    for f in "$ptx"/*.ptx; do printf 'sm_90 %s\nsm_100 %s\n' "$f" "$f"; done
    for f in "$ptx"/portable_*.ptx; do printf 'sm_80 %s\n' "$f"; done
  } | xargs -P "$(nproc)" -L 1 bash -c 'assemble "$0" "$1"' | sort
  for arch in sm_80 sm_90 sm_100; do
    echo "$arch: $(find "$work" -name "$arch-*.cubin" | wc -l) modules assembled, $(cat "$work/$arch"-*.log | grep -c 'Compiling entry') kernels," \
      "$(cat "$work/$arch"-*.log | grep -o '[0-9]* bytes spill stores' | awk '$1 > 0' | wc -l) with spills"
  done
  echo
  echo "# sm_90: kernel, registers, bytes spilled, accesses to spilled registers that are hot, global loads and stores by width (SASS), multimem instructions"
  for cubin in "$work"/sm_90-*.cubin; do
    name=$(basename "$cubin" .cubin)
    name=${name#sm_90-}
    cuobjdump -sass "$cubin" | awk -v module="$name" -v log_file="$work/sm_90-$name.log" '
      BEGIN {
        while ((getline line < log_file) > 0) {
          if (match(line, /Compiling entry function .[a-z0-9_]+/)) { split(line, q, "\047"); k = q[2] }
          if (match(line, /[0-9]+ bytes spill stores/)) spill[k] = substr(line, RSTART, RLENGTH) + 0
          if (match(line, /Used [0-9]+ registers/)) regs[k] = substr(line, RSTART + 5) + 0
        }
      }
      function wide(hex) { return substr("00000000" hex, length(hex) + 1) "" }
      function hot(  i, j, k, barriers, inner, n_hot) { # of what the function accesses on the stack
        n_hot = 0
        for (i = 1; i <= spills; i++) {
          inner = ""
          for (j = 1; j <= loops; j++)
            if (from[j] <= spilled[i] && spilled[i] <= to[j] && (inner == "" || from[j] >= from[inner] && to[j] <= to[inner])) inner = j
          if (inner == "") continue
          barriers = 0
          for (k = 1; k <= bars; k++) if (from[inner] <= bar[k] && bar[k] <= to[inner]) barriers++
          if (!barriers) n_hot++
        }
        return n_hot
      }
      function tell() {
        if (f != "") printf "%-20s %-22s %3d regs %4d spilled %2d hot  LD 128:%d 64:%d 32-:%d  ST 128:%d 64:%d 32-:%d  multimem:%d\n", module, f, regs[f], spill[f], hot(), l[128], l[64], l[32], s[128], s[64], s[32], m
      }
      /Function :/ { tell(); f = $3; delete l; delete s; m = spills = loops = bars = 0 }
      match($0, /\/\*[0-9a-f]+\*\//) {
        at = wide(substr($0, RSTART + 2, RLENGTH - 4))
        if (/ (LDL|STL)[. ]/) spilled[++spills] = at
        if (/ BAR\.SYNC/) bar[++bars] = at
        if (/ BRA(\.[A-Z.]+)? / && match($0, /0x[0-9a-f]+ ?;/)) {
          target = substr($0, RSTART + 2, RLENGTH - 2)
          sub(/ ?;/, "", target)
          target = wide(target)
          if (target <= at) { from[++loops] = target; to[loops] = at }
        }
      }
      match($0, /(LDG|LD|STG|ST)\.E[A-Z0-9.]*/) {
        op = substr($0, RSTART, RLENGTH)
        width = op ~ /\.128/ ? 128 : op ~ /\.64/ ? 64 : 32
        if (op ~ /^LD/) l[width]++; else s[width]++
      }
      /MULTIMEM|LDGMC|REDMC|STGMC|UBLKRED.*MC|\.MC/ { m++ }
      END { tell() }'
  done
} >"$out"
grep -v '^[a-z].*regs' "$out" || true
if grep -E ' [1-9][0-9]* hot ' "$out"; then
  exit 7
fi
