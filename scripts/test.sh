#!/usr/bin/env bash
# Installs what is missing, builds every configuration that has tests, and runs all tests in one
# CTest run: unit and end-to-end tests of the release build, the fast ones again under sanitizers with
# every fuzz target for a short while, those with threads under the thread sanitizer, and lint.
#
#   scripts/test.sh [ARGUMENTS FOR CTEST]      for example: scripts/test.sh -R frontier
set -euo pipefail
cd "$(dirname "$0")/.."

./scripts/install-dependencies.sh

presets=(release asan tsan lint)
for preset in "${presets[@]}"; do
  echo "== build: $preset"
  log=build/$preset/configure.log
  mkdir -p "build/$preset"
  cmake --preset "$preset" >"$log" 2>&1 || { cat "$log"; exit 1; }
  # lint compiles nothing: its tests read the compile commands.
  [ "$preset" = lint ] || cmake --build --preset "$preset"
done

# One run over all of them.
printf 'subdirs(%s)\n' "${presets[*]}" >build/CTestTestfile.cmake
echo "== test"
ctest --test-dir build --parallel "$(nproc)" --output-on-failure --no-tests=error "$@"
