#!/usr/bin/env bash
# Builds targets of the preset "release" in build/release. A folder that was configured for tests stays so; else tests and
# benchmarks are left out.
#
#   scripts/build-release.sh LOG TARGET...      HARPE_PACKAGE_MAINTAINER="Name <address>" says whom packages name
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/show-progress.sh
log=$1
shift
options=()
[ -f build/release/CMakeCache.txt ] || options+=(-DHARPE_BUILD_TESTS=OFF -DHARPE_BUILD_BENCHMARKS=OFF)
[ -z "${HARPE_PACKAGE_MAINTAINER:-}" ] || options+=("-DHARPE_PACKAGE_MAINTAINER=$HARPE_PACKAGE_MAINTAINER")
configure() {
  [ ${#options[@]} = 0 ] && [ build/release/build.ninja -nt CMakePresets.json ] && return
  # A folder that exists keeps what it was configured with.
  if [ -f build/release/CMakeCache.txt ]; then cmake build/release "${options[@]}"; else cmake --preset release "${options[@]}"; fi
}
compile() { configure && cmake --build build/release --target "$@"; }
show_progress "$log" compile "$@"
