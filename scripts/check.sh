#!/usr/bin/env bash
# Builds and tests some rooms, quickly: those that are named, and those on the floors above them whose
# files differ from the newest commit. Without a name, all rooms whose files differ. Then the format of
# what differs, and the architecture.
#
#   scripts/check.sh [ROOM...]      for example: scripts/check.sh policy
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in -h | --help)
  sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"
  exit 0
  ;;
esac

floors=src/harpe/floors.txt
floor_of() { awk -v room="$1" '$1 ~ /^[0-9]+$/ && $2 == room { print $1 }' "$floors"; }
changed_files() {
  git diff --name-only --diff-filter=d HEAD
  git ls-files --others --exclude-standard
}
mapfile -t changed < <(changed_files | sed -n 's|^src/harpe/\([a-z_]*\)/.*|\1|p' | sort -u)

lowest=0
rooms=("$@")
for room in "$@"; do
  floor=$(floor_of "$room")
  if [ -z "$floor" ] || [ ! -e "src/harpe/$room/CMakeLists.txt" ]; then
    echo "check.sh: there is no room '$room'; there are:" \
      "$(cd src/harpe && ls -d */ | tr -d '/' | tr '\n' ' ')" >&2
    exit 2
  fi
  if [ "$lowest" = 0 ] || [ "$floor" -lt "$lowest" ]; then lowest=$floor; fi
done
for room in "${changed[@]}"; do
  floor=$(floor_of "$room")
  if [ -n "$floor" ] && [ "$floor" -ge "$lowest" ]; then rooms+=("$room"); fi
done
mapfile -t rooms < <(printf '%s\n' "${rooms[@]}" | sed '/^$/d' | sort -u)

if [ "${#rooms[@]}" = 0 ]; then
  echo "check.sh: no room differs from the newest commit; name one" >&2
else
  mkdir -p build/quick
  [ -e build/quick/build.ninja ] || cmake --preset quick >build/quick/configure.log 2>&1 || {
    cat build/quick/configure.log
    exit 1
  }
  targets=()
  for room in "${rooms[@]}"; do
    ninja -C build/quick -t query "harpe_${room}_tests" >/dev/null 2>&1 && targets+=("harpe_${room}_tests")
  done
  echo "== rooms: ${rooms[*]}"
  [ "${#targets[@]}" = 0 ] || cmake --build --preset quick --target "${targets[@]}"
  pattern=$(IFS='|'; echo "${rooms[*]}")
  ctest --preset quick -R "^($pattern)/" --parallel "$(nproc)" --no-tests=ignore
fi

python3 tests/architecture_test.py 2>&1 | tail -n 1
mapfile -t sources < <(changed_files | grep -E '\.(cc|h)$' || true)
[ "${#sources[@]}" = 0 ] || clang-format-19 --dry-run --Werror "${sources[@]}"
