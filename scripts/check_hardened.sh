#!/usr/bin/env bash
# Programs and libraries of a release build are hardened: at any address, tables that nothing writes to, checked stacks and
# buffers, no stack that is executed.
#
#   scripts/check_hardened.sh [BUILD]      default: build/release
set -euo pipefail
build=${1:-$(dirname "$0")/../build/release}
for file in src/harpe/command/cli/{harpe,harpe-agent,harpe-lab} examples/trainer src/harpe/training/client/libharpe_client.so.1 sim/nvml/libnvidia-ml.so.1; do
  signs=$(readelf --file-header --program-headers --dynamic --symbols --wide "$build/$file")
  for sign in 'Type: *DYN' GNU_RELRO 'FLAGS.*NOW' __stack_chk_fail '__[a-z]*_chk@'; do
    grep -q -- "$sign" <<<"$signs" || { echo "$build/$file is not hardened: no $sign" >&2; exit 1; }
  done
  if grep -q 'GNU_STACK.*RWE' <<<"$signs"; then echo "$build/$file executes its stack" >&2; exit 1; fi
done
