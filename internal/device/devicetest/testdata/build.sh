#!/bin/sh
# Compiles the suite's kernels to PTX with plain clang: no CUDA toolkit.
# usage: build.sh [OUTPUT_FOLDER]. CLANG names the compiler (default clang-19).
set -eu
here=$(dirname "$0")
out=${1:-$here}
compile() { # name, architecture, PTX feature
  "${CLANG:-clang-19}" -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch="$2" \
    -Xclang -target-feature -Xclang +"$3" -O3 -fno-unroll-loops -std=c++20 -Wall -Werror \
    -S "$here/$1.cu" -o - | sed 's,[[:space:]]*//.*$,,; /^$/d' >"$out/$1.ptx"
}
compile portable sm_80 ptx71
compile multicast sm_90 ptx83
