#!/usr/bin/env bash
# Checks Harpe on a machine with an NVIDIA GPU, its driver and Python 3.10 or later with PyTorch, within 4 minutes. It only
# reads: no clock, limit or mode is set, nothing is reset. Nothing is installed, no network is needed.
#
#   gpu_check.sh OUT            writes gpu_check.json, its page, its pictures and the raw samples into the folder OUT, and prints a
#                               table (docs/devices.md says where to send the result)
#   gpu_check.sh --pack [DIRECTORY]    on a machine that can build Harpe: archive, wheel and this script into a folder to carry
#                               (default: out/gpu_check; below 24 MiB)
#
# It takes archive and wheel (scripts/portable.sh, scripts/wheel.sh) from the folder it lies in, from out/gpu_check, or from
# the folder that GPU_CHECK_PARTS names. PYTHON names another interpreter than python3.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
fail() { echo "gpu_check: $1" >&2; exit 2; }
# The last of these files that is there.
last_of() {
  local file found=
  for file in "$@"; do [ ! -e "$file" ] || found=$file; done
  echo "$found"
}

pack() {
  cd "$here/.."
  local out=${1:-out/gpu_check} most=$((24 << 20)) size
  mkdir -p "$out"
  out=$(cd "$out" && pwd)
  ./scripts/portable.sh out/portable
  ./scripts/wheel.sh out/wheel
  rm -f "$out"/harpe-*.tar.xz "$out"/harpe-*.whl
  cp out/portable/harpe-*.tar.xz out/wheel/harpe-*.whl "$here/gpu_check.sh" "$out"
  size=$(du -sb "$out" | cut -f1)
  [ "$size" -le $most ] || fail "$out has $size bytes, more than $most"
  echo "$out: $size bytes. There: ./gpu_check.sh OUT"
}

[ $# -ge 1 ] || { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 2; }
case $1 in
  -h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
  --pack) shift; pack "$@"; exit 0 ;;
  -*) fail "there is no option $1" ;;
esac
[ $# = 1 ] || fail "expected one folder to write into"
mkdir -p "$1"
out=$(cd "$1" && pwd)
python=$(command -v "${PYTHON:-python3}") || fail "there is no ${PYTHON:-python3}"
# The check runs in a folder of its own.
python=$(cd "$(dirname "$python")" && pwd)/$(basename "$python")
[ -z "${HARPE_SIMULATION:-}" ] || HARPE_SIMULATION=$(readlink -f "$HARPE_SIMULATION")
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || fail "$python is no Python 3.10 or later"

parts=()
for folder in "${GPU_CHECK_PARTS:-}" "$here" "$here/../../../.." "$here/../out/gpu_check"; do
  [ -n "$folder" ] || continue
  wheel=$(last_of "$folder"/harpe-*.whl)
  archive=$(last_of "$folder"/harpe-*-linux-*.tar.xz)
  [ -z "$wheel" ] || { parts=("$wheel" "$archive"); break; }
done
[ ${#parts[@]} -gt 0 ] || fail "no wheel lies in $here or out/gpu_check: make it with $0 --pack; GPU_CHECK_PARTS names its folder"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# By Python alone: tar, xz and unzip may be missing.
"$python" - "$work" "${parts[@]}" <<'PYTHON'
import os, sys, tarfile, zipfile
work, wheel, archive = sys.argv[1:]
with zipfile.ZipFile(wheel) as file:
    file.extractall(os.path.join(work, "wheel"))
    for entry in file.infolist():
        if entry.external_attr >> 16 & 0o111:
            os.chmod(os.path.join(work, "wheel", entry.filename), 0o755)
if archive:
    with tarfile.open(archive) as file:
        file.extractall(work)
PYTHON
harpe=$work/harpe/bin/harpe
[ -x "$harpe" ] || harpe=$work/wheel/harpe/bin/harpe
"$harpe" --version >/dev/null || fail "$harpe cannot be executed here; if $work is on a file system without programs, set TMPDIR"
# The check's own modules: those beside this script, else the archive's.
modules=$here
[ -d "$modules/gpu_check" ] || modules=$work/harpe/share/harpe/gpu_check
[ -d "$modules/gpu_check" ] || fail "the archive has no gpu_check: it is of an older version"

export GPU_CHECK_HARPE=$harpe PYTHONPATH=$modules:$work/wheel${PYTHONPATH:+:$PYTHONPATH} PYTHONDONTWRITEBYTECODE=1
export HARPE_COMMAND=$harpe
# No agent, server or token of the user's takes part.
unset HARPE_SERVER HARPE_JOB HARPE_TOKEN HARPE_TOKEN_FILE HARPE_CA_FILE HARPE_AGENT_SOCKET
export HARPE_CLOCK_SOCKET=
if [ -n "${HARPE_SIMULATION:-}" ]; then
  export GPU_CHECK_NVML=$work/wheel/harpe/simulated_nvml/libnvidia-ml.so.1 PYTHONPATH=$PYTHONPATH:$work/wheel/harpe/simulated_nvml
fi
cd "$work"
"$python" -m gpu_check "$out"
