#!/bin/sh
# Compiles the kernels to PTX with plain clang: no CUDA toolkit, no headers.
# usage: build.sh OUTPUT_FOLDER. CLANG names the compiler (default clang-19).
set -eu
out=$1
src=$(dirname "$0")/src
clang=${CLANG:-clang-19}

compile() { # source, architecture, PTX feature, output, defines
  source=$1 arch=$2 ptx=$3 output=$4
  shift 4
  "$clang" -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch="$arch" \
    -Xclang -target-feature -Xclang +"$ptx" -O3 -fno-unroll-loops -std=c++20 -Wall -Werror \
    "$@" -S "$src/$source" -o - | sed 's,[[:space:]]*//.*$,,; /^$/d' >"$out/$output"
}

compile link.cu sm_80 ptx71 link.ptx
compile link_bulk.cu sm_90 ptx80 link_bulk.ptx
compile rank_barrier.cu sm_80 ptx71 rank_barrier.ptx
for type in Int8 Uint8 Int32 Uint32 Int64 Uint64 Half Float Double BFloat16; do
  name=$(echo "$type" | tr '[:upper:]' '[:lower:]')
  compile portable.cu sm_80 ptx71 "portable_$name.ptx" -DELEMENT="$type"
  compile bulk.cu sm_90 ptx80 "bulk_$name.ptx" -DELEMENT="$type"
  case $type in
    Int8 | Uint8) ;; # the switch has no 8-bit arithmetic
    Float | Double) compile nvls.cu sm_90 ptx83 "nvls_$name.ptx" -DELEMENT="$type" ;;
    *) compile nvls.cu sm_90 ptx83 "nvls_$name.ptx" -DELEMENT="$type" -DORDERED ;;
  esac
done
