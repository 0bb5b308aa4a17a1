#!/usr/bin/env bash
# Installs what is missing, builds a release of Harpe for /usr, and makes .deb packages of it.
#
#   scripts/package.sh [DIRECTORY]      where to put them (default: out/packages)
#
# Programs and libraries are hardened as Debian's own (the preset "package"), which is checked.
# The same sources in the same folder give the same bytes: files are as old as the newest commit, or as SOURCE_DATE_EPOCH
# says. HARPE_PACKAGE_MAINTAINER="Name <address>" says whom packages name.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/show-progress.sh

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

options=(--preset package)
[ -z "${HARPE_PACKAGE_MAINTAINER:-}" ] || options+=("-DHARPE_PACKAGE_MAINTAINER=$HARPE_PACKAGE_MAINTAINER")

rm -rf build/package/packages
compile() {
  cmake "${options[@]}" && cmake --build build/package --target harpe_installable &&
    cpack --config build/package/CPackConfig.cmake -B build/package/packages
}
echo "Building everything (the first time takes many minutes; log: build/package.log)"
show_progress build/package.log compile || exit 1

# Programs and libraries: at any address, tables that nothing writes to, checked stacks and buffers.
for file in build/package/src/harpe/cli/{harpe,harpe-agent} build/package/examples/trainer \
  build/package/src/harpe/client/libharpe_client.so.1 build/package/sim/nvml/libnvidia-ml.so.1; do
  signs=$(readelf --file-header --program-headers --dynamic --symbols --wide "$file")
  for sign in 'Type: *DYN' GNU_RELRO 'FLAGS.*NOW' __stack_chk_fail '__[a-z]*_chk@'; do
    grep -q -- "$sign" <<<"$signs" || { echo "$file is not hardened: no $sign" >&2; exit 1; }
  done
  if grep -q 'GNU_STACK.*RWE' <<<"$signs"; then echo "$file executes its stack" >&2; exit 1; fi
done

cd build/package/packages
for package in *.deb; do
  rm -f "$out/${package%%_*}"_*.deb  # of an earlier run
  cp "$package" "$out"
  printf '%s  %5d KiB  %s\n' "$(sha256sum <"$package" | cut -d' ' -f1)" "$(($(stat -c %s "$package") / 1024))" "$package"
done
echo "They are in $out. To install command and agent: sudo apt install $(echo "$out"/harpe_*.deb "$out"/harpe-agent_*.deb)"
