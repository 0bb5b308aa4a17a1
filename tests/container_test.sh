#!/usr/bin/env bash
# The images of server and agent, built by scripts/container.sh with buildah on a Debian of a mirror (no registry is
# asked), without a daemon or name spaces of users, and what each starts: as its user, healthy, ending when it is told to.
#
#   container_test.sh BUILD               packages that cpack makes of a release build
#   container_test.sh --packages FOLDER   those of scripts/package.sh
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/.." && pwd)
. "$source_dir/tests/wait_for_line.sh"

skip() { echo "skipped: $1"; exit 77; }
fail() { echo "container: $1" >&2; exit 1; }
step() { echo "== $1"; }

# Called again below, in name spaces where port 7787 is free and remaining processes end.
if [ "${1:-}" = --run ]; then
  work=$2
  ip link set lo up

  # start IMAGE [ARGUMENT...]: runs its entry point as its user; sets container and process.
  start() {
    local image=$1 entry
    shift
    mapfile -t entry < <(buildah inspect --type image --format '{{range .OCIv1.Config.Entrypoint}}{{println .}}{{end}}' "$image" |
      sed '/^$/d')
    container=$(buildah from "$image")
    [ -z "$copied" ] || buildah copy --quiet "$container" "$copied" /etc/harpe/ >/dev/null
    buildah run "$container" -- "${entry[@]}" "$@" >"$work/said" 2>&1 &
    process=$!
    wait_for_line "listening on unix\|listening on /" "$work/said" $process || fail "$image did not start"
  }
  healthy() { buildah run "$container" -- /usr/libexec/harpe/healthy "$1"; }
  # stop PROGRAM: sends the signal of a container engine to the program, not to buildah's processes around it.
  stop() {
    local one=$process
    while [ "$(cat /proc/"$one"/comm)" != "$1" ]; do
      one=$(pgrep --parent "$one" | head -n 1) || true
      [ -n "$one" ] || fail "$1 does not run"
    done
    kill "$one"
    wait $process || { cat "$work/said"; fail "$1 ended with $?"; }
  }

  step "the server"
  copied=
  [ "$(buildah inspect --type image --format '{{.OCIv1.Config.User}}' harpe-server)" = 7787:7787 ] || fail "the server's user"
  if buildah run "$(buildah from harpe-server)" -- /usr/bin/harpe serve \
    --config /etc/harpe/server.toml >"$work/said" 2>&1; then fail "the server serves other machines without TLS or tokens"; fi
  grep -q -- "--insecure" "$work/said" || { cat "$work/said"; fail "what it lacks is not said"; }
  start harpe-server --insecure
  healthy /run/harpe-server/server.sock || fail "the server is not healthy"
  buildah run --isolation chroot "$container" -- harpe job list --server http://127.0.0.1:7787
  [ "$(buildah run "$container" -- stat -c %u:%a /var/lib/harpe)" = 7787:700 ] || fail "jobs are not the server's alone"
  buildah run "$container" -- test -s /var/lib/harpe/harpe.db || fail "jobs are not in the volume"
  stop harpe
  if healthy /run/harpe-server/server.sock 2>/dev/null; then fail "a server that has ended is healthy"; fi

  step "the agent"
  copied=$work/simulation.toml
  printf '[[gpu]]\nmodel = "a40"\ncount = 2\n' >"$copied"
  start harpe-agent --simulate /etc/harpe/simulation.toml --socket /run/harpe/agent.sock
  healthy /run/harpe/agent.sock || fail "the agent is not healthy"
  stop harpe-agent
  exit 0
fi

[ "$(id -u)" = 0 ] || skip "building without name spaces of users takes root"
for tool in buildah cpack dpkg-shlibdeps ip mmdebstrap pgrep unshare; do
  command -v "$tool" >/dev/null || skip "$tool is missing"
done
unshare --mount-proc --net --pid --fork true 2>/dev/null || skip "name spaces cannot be made here"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
cat >"$work/storage.conf" <<CONF
[storage]
driver = "vfs"
graphroot = "$work/images"
runroot = "$work/state"
CONF
export BUILDAH_ISOLATION=chroot CONTAINERS_STORAGE_CONF=$work/storage.conf
buildah from scratch >"$work/log" 2>&1 || { cat "$work/log"; skip "buildah cannot work here"; }

if [ "$1" = --packages ]; then
  packages=$2
else
  step "cpack"
  packages=$work/packages
  (cd "$1" && cpack -B "$packages") >"$work/log" 2>&1 || { cat "$work/log"; fail "cpack"; }
fi

step "images"
suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
mmdebstrap --quiet --variant=minbase "$suite" "$work/base.tar" >"$work/log" 2>&1 ||
  { cat "$work/log"; skip "no Debian could be made of a mirror"; }
"$source_dir/scripts/container.sh" --builder buildah --base "$work/base.tar" --packages "$packages" >"$work/log" 2>&1 ||
  { cat "$work/log"; fail "scripts/container.sh"; }
buildah images | grep harpe-
unshare --mount-proc --net --pid --fork --kill-child "$0" --run "$work"
echo "built, started, healthy and ended"
