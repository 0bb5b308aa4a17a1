#!/usr/bin/env bash
# Installs what is missing, builds Harpe and tests it: in minutes what a change needs, or everything.
#
#   scripts/test.sh              fast tests, tests with threads, end-to-end tests of seconds, the architecture, the format,
#                                and clang-tidy over the files that differ from origin/main
#   scripts/test.sh ROOM...      the tests of these rooms, and of the rooms above whose files differ from the newest commit
#   scripts/test.sh --all        everything, as CI does: the release build with slow and timed tests, packages and wheels; the
#                                fast tests under sanitizers, with every fuzz target for a while; the whole lint
#   scripts/test.sh ... -- ARGUMENTS    the same with arguments for ctest, for example: scripts/test.sh -- -R frontier/
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/show-progress.sh

all= rooms=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --all) all=1 ;;
    --) shift; break ;;
    -*) echo "test.sh: there is no option $1 (arguments for ctest go after --)" >&2; exit 2 ;;
    *) rooms+=("$1") ;;
  esac
  shift
done
if [ -n "$all" ] && [ ${#rooms[@]} -gt 0 ]; then
  echo "test.sh: --all has all rooms" >&2
  exit 2
fi
house=$(python3 scripts/house.py)  # height, name and folder of each room
height_of() { awk -v room="$1" '$2 == room { print $1 }' <<<"$house"; }
folder_of() { awk -v room="$1" '$2 == room { print "src/harpe/" $3 }' <<<"$house"; }
for room in "${rooms[@]}"; do
  [ -n "$(height_of "$room")" ] ||
    { echo "test.sh: there is no room '$room'; there are:" $(awk '{ print $2 }' <<<"$house") >&2; exit 2; }
done

# build PRESET [ARGUMENTS FOR CMAKE --build]
build() {
  local preset=$1
  shift
  echo "== build: $preset (log: build/$preset/build.log)"
  compile() {
    # Reconfigures, since scripts/build-release.sh may have configured the folder without tests; skipped for rooms, to
    # save seconds.
    { [ ${#rooms[@]} -gt 0 ] && [ "build/$preset/build.ninja" -nt CMakePresets.json ]; } || cmake --preset "$preset" || return
    [ "$preset" = lint ] || cmake --build --preset "$preset" "$@"  # lint compiles nothing
  }
  show_progress "build/$preset/build.log" compile "$@"
}

# run_tests PRESETS ARGUMENTS FOR CTEST: runs the tests of these builds in one run. A core has two shares: a test that
# computes takes both, one that mostly waits (WAITS in tests/CMakeLists.txt) takes one. Eight waiting tests on two cores
# would be too many: their programs respond seconds late. One extra share lets a waiting test run next to computing
# ones.
run_tests() {
  local cores preset
  cores=$(nproc)
  printf '{"version": {"major": 1, "minor": 0}, "local": [{"cores": [{"id": "0", "slots": %s}]}]}\n' $((cores * 2 + 1)) >build/cores.json
  printf 'subdirs(%s)\n' "$1" >build/CTestTestfile.cmake
  for preset in $1; do rm -rf "build/$preset/cases"; done
  shift
  echo "== test"
  sync # otherwise the first tests that commit to a database wait for gigabytes of objects: a commit took more than 5 s
  ctest --test-dir build --parallel $((cores * 4)) --resource-spec-file cores.json --output-on-failure --no-tests=error "$@"
}

lint() { python3 scripts/lint.py "$@"; }
failed=()

if [ -n "$all" ]; then
  presets=(release asan tsan lint)
  ./scripts/install-dependencies.sh
  for preset in "${presets[@]}"; do build "$preset"; done
  run_tests "${presets[*]}" "$@" || failed+=(tests)
elif [ ${#rooms[@]} = 0 ]; then
  presets=(quick)
  ./scripts/install-dependencies.sh --test
  build quick
  run_tests quick "$@" || failed+=(tests)
  echo "== format"
  lint format || failed+=(format)
  echo "== clang-tidy"
  lint tidy --changed || failed+=(clang-tidy)
else
  presets=(quick)
  ./scripts/install-dependencies.sh --test
  # Adds changed rooms at the height of the lowest named room or above, since these may include the changed files.
  lowest=$(for room in "${rooms[@]}"; do height_of "$room"; done | sort -n | sed -n 1p)
  changed_files() { git diff --name-only --diff-filter=d HEAD; git ls-files --others --exclude-standard; }
  changed=$(changed_files)
  while read -r height room folder; do
    [ "$height" -lt "$lowest" ] || [[ $changed != *"src/harpe/$folder/"* ]] || rooms+=("$room")
  done <<<"$house"
  mapfile -t rooms < <(printf '%s\n' "${rooms[@]}" | sort -u)
  echo "== rooms: ${rooms[*]}"
  targets=()
  for room in "${rooms[@]}"; do
    ! compgen -G "$(folder_of "$room")/*_test.cc" >/dev/null || targets+=("harpe_${room}_tests")
  done
  [ ${#targets[@]} = 0 ] || build quick --target "${targets[@]}"
  run_tests quick -R "^($(IFS='|'; echo "${rooms[*]}"))/" --no-tests=ignore "$@" || failed+=(tests)
  walls=$(python3 tests/architecture_test.py 2>&1) || { echo "$walls"; failed+=(architecture); }
  mapfile -t sources < <(changed_files | grep -E '\.(cc|h)$' || true)
  [ ${#sources[@]} = 0 ] || clang-format-19 --dry-run --Werror "${sources[@]}" || failed+=(format)
fi

echo "== result"
python3 scripts/test_cases.py "${presets[@]/#/build/}"
if [ ${#failed[@]} -gt 0 ]; then
  echo "failed: ${failed[*]}"
  exit 1
fi
echo "passed"
