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
# Prints the last of these files that exists.
last_of() {
  local file found=
  for file in "$@"; do [ ! -e "$file" ] || found=$file; done
  echo "$found"
}

# Removes the demonstration's trainer and the experiments: a third of the wheel, not used here.
without_unused() {
  python3 - "$1" <<'PYTHON'
import os
import sys
import zipfile

path, left_out = sys.argv[1], ("harpe/libexec/harpe/trainer", "harpe/bin/harpe-lab")
with zipfile.ZipFile(path) as whole, zipfile.ZipFile(path + ".new", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as kept:
    for member in whole.infolist():
        content = whole.read(member)
        if member.filename.endswith(".dist-info/RECORD"):
            lines = content.splitlines(keepends=True)
            content = b"".join(line for line in lines if not line.startswith(tuple(name.encode() + b"," for name in left_out)))
        if member.filename not in left_out:
            kept.writestr(member, content)
os.replace(path + ".new", path)
PYTHON
}

# Removes the same parts from the archive.
without_lab() {
  local folder
  folder=$(mktemp -d)
  tar --extract --file "$1" --directory "$folder"
  rm "$folder/harpe/bin/harpe-lab"
  XZ_OPT=-9 tar --create --xz --file "$1" --directory "$folder" --sort=name --owner=0 --group=0 --numeric-owner harpe
  rm -rf "$folder"
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
  without_unused "$out"/harpe-*.whl
  without_lab "$out"/harpe-*.tar.xz
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
# The check runs in its own folder.
python=$(cd "$(dirname "$python")" && pwd)/$(basename "$python")
[ -z "${HARPE_SIMULATION:-}" ] || HARPE_SIMULATION=$(readlink -f "$HARPE_SIMULATION")
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || fail "$python is no Python 3.10 or later"

wheel='' archive=''
for folder in "${GPU_CHECK_PARTS:-}" "$here" "$here/../../../.." "$here/../out/gpu_check"; do
  [ -n "$folder" ] || continue
  wheel=$(last_of "$folder"/harpe-*.whl)
  archive=$(last_of "$folder"/harpe-*-linux-*.tar.xz)
  [ -z "$wheel$archive" ] || break
done
needed="this script needs the archive (harpe-*-linux-*.tar.xz) and the wheel (harpe-*.whl) of Harpe beside it. \
'scripts/gpu_check.sh --pack', where Harpe can be built, writes all three into out/gpu_check: copy that whole folder to this machine, \
or name it with GPU_CHECK_PARTS"
[ -n "$wheel$archive" ] || fail "neither lies in ${GPU_CHECK_PARTS:-$here}: $needed"
[ -n "$wheel" ] || fail "there is no wheel beside $archive: $needed"
[ -n "$archive" ] || fail "there is no archive beside $wheel: $needed"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# With Python only: tar, xz and unzip may be missing.
"$python" - "$work" "$wheel" "$archive" <<'PYTHON'
import os, platform, re, sys, tarfile, zipfile
work, wheel, archive = sys.argv[1:]


def fail(why):
    print(f"gpu_check: {why}", file=sys.stderr)
    sys.exit(2)


def check_they_fit(wheel, archive):
    """Names say what they are for: harpe-VERSION-PYTHON-ABI-PLATFORM.whl, harpe-VERSION-linux-MACHINE.tar.xz."""
    wheel, archive = os.path.basename(wheel), os.path.basename(archive)
    named = re.fullmatch(r"harpe-([^-]+)-cp3(\d+)-([^-]+)-(.+)\.whl", wheel)
    packed = re.fullmatch(r"harpe-([^-]+)-linux-(.+)\.tar\.xz", archive)
    if not named or not packed:
        fail(f"{archive if named else wheel} is no file that --pack writes")
    again = "build them on such a machine with scripts/gpu_check.sh --pack"
    machine = platform.machine()
    for name, platforms in ((wheel, named[4].split(".")), (archive, ["linux_" + packed[2]])):
        if not any(one.startswith(("manylinux", "linux")) and one.endswith("_" + machine) for one in platforms):
            fail(f"{name} is for another machine: this one is {platform.system()} on {machine}; {again}")
    minor, here = int(named[2]), "%d.%d" % sys.version_info[:2]
    if sys.version_info[1] < minor or (named[3] != "abi3" and sys.version_info[1] != minor):
        later = " or later" if named[3] == "abi3" else ""
        fail(f"{wheel} is for Python 3.{minor}{later}, and {sys.executable} is Python {here}: name another one with PYTHON")
    if named[1] != packed[1]:
        fail(f"{wheel} and {archive} are of different versions: copy both from one folder that --pack wrote")


def check_members(file):
    """Python before 3.10.12 and 3.11.4 has no filter: nothing may lie, or lead, outside of the folder."""
    for member in file.getmembers():
        inside = [member.name] if not member.issym() else [member.name, os.path.join(os.path.dirname(member.name), member.linkname)]
        inside += [member.linkname] if member.islnk() else []
        if not (member.isreg() or member.isdir() or member.issym() or member.islnk()) or \
                any(os.path.isabs(name) or os.path.normpath(name).split(os.sep)[0] == ".." for name in inside):
            fail(f"{archive} has {member.name!r}, which would lie outside of it: it was not written by --pack")


check_they_fit(wheel, archive)
try:
    with zipfile.ZipFile(wheel) as file:
        # Keeps every file within the folder, and creates no links.
        file.extractall(os.path.join(work, "wheel"))
        for entry in file.infolist():
            if entry.external_attr >> 16 & 0o111:
                os.chmod(os.path.join(work, "wheel", entry.filename), 0o755)
    with tarfile.open(archive, "r:xz") as file:
        check_members(file)
        file.extractall(work, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError, ImportError) as error:
    fail(f"{wheel} and {archive} cannot be unpacked into {work}: {type(error).__name__}: {error}; if they are damaged, copy them again")
except Exception as error:
    if type(error).__name__ != "LZMAError":
        raise
    fail(f"{archive} is damaged ({error}): copy it again")
PYTHON
harpe=$work/harpe/bin/harpe
said=$("$harpe" --version 2>&1) ||
  fail "$harpe cannot be executed here: $said; if $work is on a file system without programs, set TMPDIR"
# The check's modules: next to this script, else in the archive.
modules=$here
[ -d "$modules/gpu_check" ] || modules=$work/harpe/share/harpe/gpu_check
[ -d "$modules/gpu_check" ] || fail "the archive has no gpu_check: it is of an older version"

export GPU_CHECK_HARPE=$harpe PYTHONPATH=$modules:$work/wheel${PYTHONPATH:+:$PYTHONPATH} PYTHONDONTWRITEBYTECODE=1
said=$("$python" -c 'from harpe import _client' 2>&1) || fail "the wheel's module cannot be loaded by $python: ${said##*$'\n'}"
export HARPE_COMMAND=$harpe
# Ignore the user's agent, server and token.
unset HARPE_SERVER HARPE_JOB HARPE_TOKEN HARPE_TOKEN_FILE HARPE_CA_FILE HARPE_AGENT_SOCKET
export HARPE_CLOCK_SOCKET=
if [ -n "${HARPE_SIMULATION:-}" ]; then
  export GPU_CHECK_NVML=$work/wheel/harpe/simulated_nvml/libnvidia-ml.so.1 PYTHONPATH=$PYTHONPATH:$work/wheel/harpe/simulated_nvml
fi
cd "$work"
"$python" -m gpu_check "$out"
