#!/usr/bin/env bash
# Everything goes wrong while 200 ranks train: three servers over one PostgreSQL, agents on simulated GPUs, each on a
# machine (network name space) of its own; docs/reliability.md. One line of figures, and 0; or what broke, and 1, with
# logs and history kept. It needs the right to make name spaces; without it, it says so and ends with 2.
#
#   scripts/chaos.sh SECONDS SEED [--harpe HARPE --trainer TRAINER] [--keep]     without programs: they are built
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -lt 2 ]; then
  sed -n '2,7s/^# \?//p' "$0" >&2
  exit 2
fi
seconds=$1 seed=$2
shift 2
if [ "$(id -u)" -ne 0 ] || ! unshare --net --mount --pid --fork true 2>/dev/null; then
  echo "chaos.sh makes network name spaces, mounts and processes of other users: run it as root" >&2
  exit 2
fi
case " $* " in
  *" --harpe "*) ;;
  *)
    ./scripts/install-dependencies.sh >&2
    mkdir -p build
    { cmake --preset release && cmake --build build/release --target harpe trainer; } >build/chaos.log 2>&1 ||
      { cat build/chaos.log >&2; exit 2; }
    set -- --harpe build/release/src/harpe/command/cli/harpe --trainer build/release/examples/trainer "$@"
    ;;
esac
# Whatever ends this ends all processes of the run, and with them its name spaces and mounts.
exec unshare --net --mount --pid --fork --kill-child --mount-proc /usr/bin/python3 tests/chaos/run.py "$@" "$seconds" "$seed"
