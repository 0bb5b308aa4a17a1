#!/usr/bin/env bash
# Installs the Debian 12 packages that building and testing Harpe needs and that are missing, and for
# tests the Python packages of tests/requirements.txt into build/venv.
# Does nothing, and needs no rights, when all of them are there.
#
#   scripts/install-dependencies.sh            everything: build, all tests, the whole lint
#   scripts/install-dependencies.sh --test     what scripts/test.sh needs without --all
#   scripts/install-dependencies.sh --build    only what building and running needs
#   scripts/install-dependencies.sh --package  that, and what making packages needs
#   scripts/install-dependencies.sh --wheel    that, and what scripts/wheel.sh needs
set -euo pipefail

build=(
  ca-certificates ccache cmake g++ ninja-build
  libboost-dev libcli11-dev libcurl4-openssl-dev libpq-dev libpugixml-dev libsqlite3-dev libssl-dev nlohmann-json3-dev
  python3-dev zlib1g-dev
)
package=(dpkg-dev file)
wheel=(dpkg-dev libssl-dev make patch python3-venv)
tests=(
  clang-19 clang-format-19 lld-19
  libgmock-dev libgtest-dev
  chromium man-db pkg-config postgresql-15 python3 python3-numpy python3-scipy python3-venv
)
all=(coinor-cbc iproute2 libbenchmark-dev libclang-rt-19-dev lintian llvm-19 mmdebstrap prometheus python3-torch)

python=()
case "${1:-}" in
  --build) wanted=("${build[@]}") ;;
  --package) wanted=("${build[@]}" "${package[@]}") ;;
  --wheel) wanted=("${build[@]}" "${wheel[@]}") ;;
  --test) wanted=("${build[@]}" "${tests[@]}") python=(tests/requirements.txt) ;;
  "")
    wanted=("${build[@]}" "${package[@]}" "${wheel[@]}" "${tests[@]}" "${all[@]}")
    python=(tests/requirements.txt tests/requirements-all.txt)
    ;;
  *) echo "usage: $0 [--build | --package | --wheel | --test]" >&2; exit 2 ;;
esac

# Installs the Python packages, again if a list has changed. Uses Debian's interpreter, since others
# come and go.
install_python_packages() {
  local venv=build/venv list
  cd "$(dirname "$0")/.."
  for list in "${python[@]}"; do
    [ ! -e "$venv/${list##*/}" ] || cmp --silent "$list" "$venv/${list##*/}" || rm -rf "$venv"
  done
  for list in "${python[@]}"; do
    [ ! -e "$venv/${list##*/}" ] || continue
    echo "Installing the Python packages of $list into $venv"
    [ -x $venv/bin/pip ] || /usr/bin/python3 -m venv $venv
    $venv/bin/pip install --quiet --disable-pip-version-check --no-deps -r "$list"
    cp "$list" $venv
  done
}

missing=()
for package in "${wanted[@]}"; do
  status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  install_python_packages
  exit
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
install_python_packages
