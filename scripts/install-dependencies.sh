#!/usr/bin/env bash
# Installs the Debian 12 packages that building and testing Harpe needs and that are missing, and for
# tests the Python packages of tests/requirements.txt into build/venv.
# Does nothing, and needs no rights, when all of them are there.
#
#   scripts/install-dependencies.sh            everything: build, tests, lint
#   scripts/install-dependencies.sh --build    only what building and running needs
#   scripts/install-dependencies.sh --package  that, and what making packages needs
#   scripts/install-dependencies.sh --wheel    that, and what scripts/wheel.sh needs
set -euo pipefail

build=(
  ca-certificates ccache cmake g++ ninja-build
  libboost-dev libcli11-dev libcurl4-openssl-dev libpq-dev libpugixml-dev libsqlite3-dev libssl-dev nlohmann-json3-dev
  python3-dev
)
package=(dpkg-dev file)
wheel=(dpkg-dev libssl-dev make patch python3-venv zlib1g-dev)
tests=(
  clang-19 clang-format-19 libclang-rt-19-dev lld-19 llvm-19
  libbenchmark-dev libgmock-dev libgtest-dev librapidcheck-dev
  man-db python3 python3-venv python3-numpy python3-scipy python3-torch
  chromium coinor-cbc
  iproute2 lintian mmdebstrap pkg-config postgresql-15 prometheus
)

case "${1:-}" in
  --build) wanted=("${build[@]}") ;;
  --package) wanted=("${build[@]}" "${package[@]}") ;;
  --wheel) wanted=("${build[@]}" "${wheel[@]}") ;;
  "") wanted=("${build[@]}" "${package[@]}" "${wheel[@]}" "${tests[@]}") ;;
  *) echo "usage: $0 [--build | --package | --wheel]" >&2; exit 2 ;;
esac

# The Python packages, anew when the list has changed. Debian's interpreter: other ones come and go.
install_python_packages() {
  local root venv wanted
  root=$(cd "$(dirname "$0")/.." && pwd)
  venv=$root/build/venv
  wanted=$(sha256sum <"$root/tests/requirements.txt")
  [ "$(cat "$venv/installed" 2>/dev/null)" = "$wanted" ] && return
  echo "Installing Python packages into build/venv"
  rm -rf "$venv"
  /usr/bin/python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$root/tests/requirements.txt"
  echo "$wanted" >"$venv/installed"
}

finish() {
  [ -n "${1:-}" ] || install_python_packages
  exit 0
}

missing=()
for package in "${wanted[@]}"; do
  status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  finish "$@"
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "Missing packages: ${missing[*]}" >&2
    echo "Run as root: apt-get install --no-remove ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "Installing from Debian, which takes a minute or two: ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes \
  apt-get install --yes --no-remove --no-install-recommends -qq "${missing[@]}" >/dev/null
finish "$@"
