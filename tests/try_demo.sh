#!/usr/bin/env bash
# `harpe demo` of an installed copy begins: it finds its parts, and agent and server run. Then it is ended, with all that it started.
#
#   try_demo.sh HARPE
set -euo pipefail
. "$(dirname "$0")/wait_for_line.sh"
harpe=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for demo in "" carbon; do
  env PATH=/usr/bin:/bin "$harpe" demo $demo --out "$work/demo" >"$work/log" 2>&1 &
  process=$!
  wait_for_line "A job of 2 pipelines" "$work/log" $process || { echo "$harpe demo $demo did not start"; exit 1; }
  kill "$process"
  status=0
  wait "$process" || status=$?
  [ $status = 143 ] || { cat "$work/log"; echo "$harpe demo $demo ended with $status"; exit 1; }
done
if said=$(env PATH=/none "$harpe" demo 2>&1); then echo "$harpe demo without Python: $said"; exit 1; fi
grep -q "python3 is missing.*Install Python" <<<"$said" || { echo "$harpe demo without Python: $said"; exit 1; }
