#!/usr/bin/env bash
# Installs what is missing, builds a release of Harpe in build/release, and makes .deb packages of it.
#
#   scripts/package.sh [DIRECTORY]      where to put them (default: out/packages)
#
# Programs and libraries are hardened as Debian's own, which is checked.
# The same sources in the same folder give the same bytes: files are as old as the newest commit, or as SOURCE_DATE_EPOCH
# says. HARPE_PACKAGE_MAINTAINER="Name <address>" says whom packages name.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in -h | --help)
  sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"
  exit 0
  ;;
esac
mkdir -p "${1:-out/packages}"
out=$(cd "${1:-out/packages}" && pwd)

./scripts/install-dependencies.sh --package
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)
fi
export SOURCE_DATE_EPOCH

echo "Building everything (the first time takes many minutes; log: build/package.log)"
./scripts/build-release.sh build/package.log harpe_installable
./scripts/check_hardened.sh
rm -rf build/release/packages
cpack --config build/release/CPackConfig.cmake -B build/release/packages >>build/package.log 2>&1 || { cat build/package.log; exit 1; }

cd build/release/packages
for package in *.deb; do
  rm -f "$out/${package%%_*}"_*.deb  # from an earlier run
  cp "$package" "$out"
  printf '%s  %5d KiB  %s\n' "$(sha256sum <"$package" | cut -d' ' -f1)" "$(($(stat -c %s "$package") / 1024))" "$package"
done
echo "They are in $out. To install command and agent: sudo apt install $(echo "$out"/harpe_*.deb "$out"/harpe-agent_*.deb)"
