#!/usr/bin/env bash
# Builds an archive of Harpe for Linux systems other than the one it is built on, from RHEL 8 (glibc 2.28) on: commands,
# agent, client library, simulated NVML, demonstrations and the check of scripts/gpu_check.sh, which need no library but
# glibc and libgcc_s, no installation and no rights. Checks it with the glibc of an older Debian, and puts it into out/portable.
#
#   scripts/portable.sh [DIRECTORY]
#
# What is not in it: jobs on PostgreSQL, and what others build against (headers, static libraries).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/show-progress.sh
out=${1:-out/portable}
parts=$PWD/build/wheel-parts
build=build/portable
oldest=2.28
jobs=${HARPE_JOBS:-$(nproc)}
mkdir -p "$out"
./scripts/standalone-parts.sh

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
build_and_stage() {
  local component
  # This folder is the one named in the units of services.
  cmake --preset release -B $build -DHARPE_STANDALONE=ON "-DHARPE_OLDER_GLIBC=$parts/glibc" "-DCMAKE_PREFIX_PATH=$parts/curl" \
    -DCMAKE_INSTALL_PREFIX=/opt/harpe -DHARPE_BUILD_TESTS=OFF -DHARPE_BUILD_BENCHMARKS=OFF -DHARPE_BUILD_PYTHON=OFF || return
  cmake --build $build --parallel "$jobs" --target harpe harpe-agent harpe-lab trainer harpe_pages harpe_client_shared \
    harpe_simulated_nvml || return
  for component in command agent lab client simulated_nvml license; do
    DESTDIR=$stage cmake --install $build --strip --component $component || return
  done
}
# Adds the files that scripts/gpu_check.sh needs besides the wheel, on a machine with a GPU and nothing else.
stage_gpu_check() {
  local folder=$stage/opt/harpe/share/harpe/gpu_check
  mkdir -p "$folder/gpu_check/page"
  cp scripts/gpu_check.sh "$folder"
  cp scripts/gpu_check/{*.py,schema.json} examples/page_frame.py "$folder/gpu_check"
  cp src/harpe/report/page/{page.css,frame.html} "$folder/gpu_check/page"
}
echo "Building everything (the first time takes many minutes; log: build/portable.log)"
show_progress build/portable.log build_and_stage || exit 1
stage_gpu_check

echo "Checking it"
harpe=$stage/opt/harpe
fail() { echo "portable: $1" >&2; exit 1; }
mapfile -t programs < <(find "$harpe" -type f \( -perm -100 -o -name '*.so*' \) -exec sh -c 'head -c 4 "$1" | grep -q ELF' - {} \; -print)
[ ${#programs[@]} = 6 ] || fail "its programs and libraries are ${programs[*]}"
for program in "${programs[@]}"; do
  libraries=$(readelf --dynamic --wide "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
    grep -Ev '^(lib(c|m|gcc_s|pthread|dl|rt)\.so|ld-linux)' || true)
  [ -z "$libraries" ] || fail "$program needs $libraries"
  newest=$(objdump --dynamic-syms "$program" | grep -o 'GLIBC_[0-9.]*' | sort --unique --version-sort | tail -n 1)
  printf '%s\n' "$newest" "GLIBC_$oldest" | sort --check --version-sort 2>/dev/null ||
    fail "$program needs $newest: $(objdump --dynamic-syms "$program" | grep "$newest)" | sed 's/.* //' | tr '\n' ' ')"
done
# Runs the programs with the older glibc itself.
library=$(dirname "$(find "$parts/glibc/lib" -name 'libc.so.6')")
older() { "$library"/ld-linux-*.so.? --library-path "$library" "$harpe/$1" "${@:2}"; }
older bin/harpe synth --stages 4 --out "$stage/profile.csv" >/dev/null
older bin/harpe plan --profile "$stage/profile.csv" --micro-batches 8 --slowdown 0 --certificate --out "$stage/plan" >/dev/null
older bin/harpe verify "$stage/plan/plan.json" --profile "$stage/profile.csv" --certificate "$stage/plan/certificate.json" >/dev/null
older bin/harpe-agent --version >/dev/null
older bin/harpe-lab --version >/dev/null
tests/try_demo.sh "$harpe/bin/harpe" || fail "harpe demo"

version=$(sed -n 's/^project(harpe VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
archive=$out/harpe-$version-linux-$(uname -m).tar.xz
# Makes the archive reproducible for the same sources in the same folder.
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)
fi
# The programs share much code, so a dictionary as large as the archive saves a fifth.
XZ_OPT=-9 tar --create --xz --file "$archive" --directory "$stage/opt" --sort=name --owner=0 --group=0 --numeric-owner \
  "--mtime=@$SOURCE_DATE_EPOCH" harpe
sha256sum "$archive"
echo "For systems with glibc $oldest or later: tar -xf $archive, then harpe/bin/harpe; for its services, into /opt."
