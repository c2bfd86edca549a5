#!/bin/bash
# Stands for apptainer exec where there is none: IMAGE is a folder, and ch-run
# makes the container. It takes the options of Apptainer that the batch scripts
# use, does what the manual says of them, and refuses all others.
set -euo pipefail

[ "${1:-}" = exec ] || { echo "apptainer: only exec is known here, not '${1:-}'" >&2; exit 255; }
shift
libs=
options=()
while [ "$#" -gt 0 ]; do
  case $1 in
    --nv) libs=/.singularity.d/libs; shift ;;
    --bind) options+=("--bind=$2"); shift 2 ;;
    --env) set_env+=("$2"); shift 2 ;;
    -*) echo "apptainer: unknown option $1" >&2; exit 255 ;;
    *) break ;;
  esac
done
image=$1
shift
[ -d "$image" ] || { echo "apptainer: no image at $image" >&2; exit 255; }

# The host's environment but for the search paths; then --env; then what --nv
# appends.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
unset LD_LIBRARY_PATH
for kv in ${set_env[@]+"${set_env[@]}"}; do
  export "${kv?}"
done
if [ -n "$libs" ]; then
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$libs
fi
export APPTAINER_CONTAINER=$image APPTAINER_NAME=${image##*/} USER=${USER:-$(id -un)}
exec ch-run --cd="$PWD" --bind=/etc/hosts "--bind=$STAND_IN_PROGRAM:/usr/local/bin/nvls-allreduce" ${options[@]+"${options[@]}"} "$image" -- "$@"
