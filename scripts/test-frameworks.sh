#!/usr/bin/env bash
# Tests the Python package's hooks on the frameworks themselves, which are gigabytes: installs them into
# build/frameworks (8 GB of disk), then runs python/tests/*_real_test.py on the release build.
#
#   scripts/test-frameworks.sh [ARGUMENTS FOR PYTEST]      for example: -k ZBV
set -euo pipefail
cd "$(dirname "$0")/.."

packages=python/tests/frameworks.txt
venv=build/frameworks
wanted=$(sha256sum <"$packages")
if [ "$(cat "$venv/installed" 2>/dev/null)" != "$wanted" ]; then
  rm -rf "$venv"
  /usr/bin/python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$packages"
  echo "$wanted" >"$venv/installed"
fi

[ -d build/release ] || cmake --preset release
cmake --build --preset release --target harpe_python
PYTHONPATH=build/release/python exec "$venv/bin/python" -m pytest -p no:cacheprovider python/tests/*_real_test.py "$@"
