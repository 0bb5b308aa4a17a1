#!/usr/bin/env bash
# The Debian packages, where they will be: in an empty Debian, without a compiler or sources. A version before is installed
# and used, upgraded, used again, removed and purged; what the units start is started as they do it, as their users and
# without a network; then by systemd itself, where it can run (systemd_units.sh).
#
#   packages_test.sh BUILD               packages that cpack makes of a release build
#   packages_test.sh --packages FOLDER   those of scripts/package.sh
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/.." && pwd)
. "$source_dir/tests/wait_for_line.sh"

skip() { echo "skipped: $1"; exit 77; }
fail() { echo "packages: $1" >&2; exit 1; }
step() { echo "== $1"; }

root=${PACKAGES_ROOT:-}
in_root() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"; }

# Prints one value of a unit; the last one, if there are several.
unit_value() { sed -n "s/^$2=//p" "$root/usr/lib/systemd/system/$1.service" | tail -n 1; }

# folder UNIT KEY PARENT: creates the folder as systemd does before it starts the unit.
folder() {
  local name user mode
  name=$(unit_value "$1" "$2Directory")
  user=$(unit_value "$1" User)
  mode=$(unit_value "$1" "$2DirectoryMode")
  [ -z "$name" ] || in_root install -d -o "$user" -g "$user" -m "$mode" "$3/$name"
}

# start UNIT [ARGUMENTS FOR SETPRIV]: starts the unit's command; sets process.
start() {
  local unit=$1 file command
  shift
  folder "$unit" Runtime /run
  folder "$unit" State /var/lib
  folder "$unit" Logs /var/log
  file=$(unit_value "$unit" EnvironmentFile)
  command="set -a; ${file:+if [ -e ${file#-} ]; then . ${file#-}; fi;} set +a; umask $(unit_value "$unit" UMask)
    exec setpriv --no-new-privs --inh-caps=-all $* $(unit_value "$unit" ExecStart)"
  # As a command, not a function of this shell, so that signals reach the program itself.
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 chroot "$root" sh -c "$command" 2>"$root/tmp/$unit.log" &
  process=$!
  wait_for_line "listening on" "$root/tmp/$unit.log" $process || fail "$unit did not start"
}
start_agent() { start harpe-agent --bounding-set=-all,+sys_admin,+sys_nice; }
start_server() { start harpe-server --reuid=harpe --regid=harpe --init-groups --bounding-set=-all; }
stop() {
  kill "$1"
  wait "$1" || fail "process $1 ended with $?"
}

# request SOCKET METHOD PATH [BODY]: prints the response.
request() {
  python3 - "$root$1" "${@:2}" <<'PYTHON'
import http.client, socket, sys
path, method, target, *body = sys.argv[1:]
connection = http.client.HTTPConnection("localhost")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(path)
connection.request(method, target, body[0] if body else None)
answer = connection.getresponse()
print(answer.status, answer.read().decode())
PYTHON
}
server=/run/harpe-server/server.sock
agent=/run/harpe/agent.sock

use_command() {
  local said nvml simulation=/usr/share/doc/harpe/simulations/a100x4.toml
  in_root install -d -o nobody /tmp/user
  in_root setpriv --reuid=nobody --clear-groups sh -ec '
    cd /tmp/user
    harpe synth --stages 4 --out profile.csv
    harpe plan --profile profile.csv --microbatches 8 --slowdown 0 --certificate --out plan
    harpe verify plan/plan.json --profile profile.csv --certificate plan/certificate.json
    harpe run --simulate '$simulation' -- sleep 1 2>&1
  ' >"$work/used" || { cat "$work/used"; fail "the command"; }
  grep -q " J" "$work/used" || { cat "$work/used"; fail "harpe run measured nothing"; }
  nvml=$(dirname "$(cd "$root" && find usr/lib -name libnvidia-ml.so.1)")
  said=$(in_root env HARPE_SIMULATION=/$simulation LD_LIBRARY_PATH="/$nvml" harpe devices 2>&1)
  grep -q "A100" <<<"$said" || fail "the simulated NVML: $said"
  if in_root ldconfig -p | grep nvidia-ml; then fail "the simulated NVML is found by programs that did not ask for it"; fi
  in_root ldconfig -p | grep libharpe_client.so.1 >/dev/null || fail "libharpe_client.so.1 is not found"
  in_root sh -c 'test -f "$(harpe --help | tail -1 | tr -d " ")/tutorial.md"' || fail "harpe --help names no pages"
  [[ $(in_root harpe lab --version) = "harpe-lab "* ]] || fail "harpe lab"
  [[ $(in_root harpe replay zeus --help) = "harpe replay zeus: "* ]] || fail "harpe replay"
  said=$(in_root harpe agent --simulate /none.toml 2>&1) && fail "harpe agent: $said"
  grep -q "needs its own --socket" <<<"$said" || fail "harpe agent: $said"
  # Builds a program with libharpe-dev.
  cc -o "$root/tmp/rank" "$source_dir/examples/rank.c" \
    $(PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$(dirname "$(find "$root/usr/lib" -name harpe-client.pc)") \
      pkg-config --cflags --libs harpe-client)
  said=$(in_root /tmp/rank 2>&1)
  grep -q "trained; no server" <<<"$said" || fail "rank: $said"
}

# Runs a training job without a compiler or sources, as a user without rights: agent, server, ranks, plans.
use_demonstration() {
  in_root setpriv --reuid=nobody --clear-groups harpe demo --out /tmp/user/demo \
    >"$work/used" 2>&1 || { cat "$work/used"; fail "the demonstration"; }
  grep "^planned" "$work/used"
  [ -s "$root/tmp/user/demo/report.html" ] || fail "the demonstration has no report"
}

enabled() { [ -h "$root/etc/systemd/system/$1" ]; }

life() {
  mount -t proc proc "$root/proc"
  mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
  ip link set lo up

  step "a version before"
  in_root getent passwd harpe >/dev/null || fail "no user harpe"
  enabled multi-user.target.wants/harpe-agent.service && enabled sockets.target.wants/harpe-agent.socket ||
    fail "the agent is not enabled"
  ! enabled multi-user.target.wants/harpe-server.service || fail "the server is enabled unasked"
  in_root systemctl enable harpe-server.service 2>/dev/null
  in_root systemctl disable harpe-agent.service 2>/dev/null
  start_server
  request $server PUT /v1/jobs/gpt3 '{"data": 2, "stages": 4, "schedule": "1f1b", "micro_batches": 8}' | grep "^201"
  stop $process
  echo "# ours" >>"$root/etc/harpe/agent.toml"
  echo "PGPASSWORD=ours" >>"$root/etc/harpe/server.env"

  step "upgrade"
  # As apt does: harpe-lab takes over files of an older harpe, which is deconfigured until it is also upgraded.
  in_root sh -c 'dpkg --install --auto-deconfigure --force-confold /packages/new/*.deb' >"$work/said" 2>&1 || { cat "$work/said"; fail "the upgrade"; }
  [ "$(tail -n 1 "$root/etc/harpe/agent.toml")" = "# ours" ] || fail "the changed policy is not kept"
  [ "$(in_root stat -c %U:%G:%a /etc/harpe/server.toml)" = root:harpe:640 ] || fail "others read the server's options"
  ! grep -q "before" "$root/etc/harpe/server.toml" || fail "the configuration that was not changed is old"
  [ "$(tail -n 1 "$root/etc/harpe/server.env")" = "PGPASSWORD=ours" ] || fail "the server's environment is not kept"
  [ "$(in_root stat -c %U:%a /etc/harpe/server.env)" = root:600 ] || fail "others read the server's environment"
  rm -f "$root/etc/harpe/agent.toml.dpkg-dist" "$root/etc/harpe/server.env.dpkg-dist"
  enabled multi-user.target.wants/harpe-server.service || fail "the upgrade disabled the server"
  ! enabled multi-user.target.wants/harpe-agent.service || fail "the upgrade enabled the agent again"
  in_root sh -c 'dpkg --verify harpe harpe-agent harpe-lab libharpe-client1 libharpe-dev harpe-simulated-nvml' |
    grep -v "c /etc/harpe/\(agent.toml\|server.env\)" && fail "files differ from their package"
  # For other units it reports programs that this Debian does not have.
  in_root systemd-analyze verify --man=no harpe-agent.service harpe-agent.socket harpe-server.service >"$work/said" 2>&1 || true
  ! grep harpe "$work/said" || fail "systemd-analyze verify"

  step "the new version"
  start_server
  request $server GET /v1/jobs | grep gpt3 >/dev/null || fail "the upgrade lost the job"
  in_root harpe job list --all | grep gpt3
  stop $process
  start_agent
  request $agent GET /health | grep "^200"
  # Rotated in the same way as by logrotate.
  mv "$root/var/log/harpe/agent-audit.jsonl" "$root/var/log/harpe/agent-audit.jsonl.1"
  in_root env MAINPID=$process sh -c "$(unit_value harpe-agent ExecReload)"
  for _ in $(seq 100); do
    [ ! -e "$root/var/log/harpe/agent-audit.jsonl" ] || break
    sleep 0.1
  done
  [ -e "$root/var/log/harpe/agent-audit.jsonl" ] || fail "no audit log after it was rotated"
  stop $process
  use_command
  use_demonstration
  # systemd finds processes of this name space in /proc.
  unshare --mount sh -c 'mount -t proc proc /proc && exec "$0" "$1"' "$source_dir/tests/systemd_units.sh" "$root" ||
    [ $? = 77 ] || fail "the units"

  step "remove and purge"
  in_root dpkg --remove harpe harpe-agent harpe-lab libharpe-client1 libharpe-dev harpe-simulated-nvml >"$work/said" 2>&1 ||
    { cat "$work/said"; fail "dpkg --remove"; }
  [ -e "$root/etc/harpe/agent.toml" ] && [ -e "$root/etc/harpe/server.toml" ] || fail "removal took the configuration"
  in_root dpkg --purge harpe harpe-agent harpe-lab libharpe-client1 libharpe-dev harpe-simulated-nvml >"$work/said" 2>&1 ||
    { cat "$work/said"; fail "dpkg --purge"; }
  umount "$root/proc" "$root/dev/shm"
  rm -rf "$root/packages"
  (cd "$root" && find . -path ./tmp -prune -o -path ./run -prune -o -iname '*harpe*' -print -prune) >"$work/left"
  # Only jobs and their user are left.
  diff "$work/left" - <<<./var/lib/harpe || fail "a purge leaves (<) or took (>)"
  [ -s "$root/var/lib/harpe/harpe.db" ] || fail "a purge took the jobs"
  in_root getent passwd harpe >/dev/null || fail "the state's owner is gone"
}

# older FROM TO: makes an earlier version of the package, with a different configuration.
older() {
  local folder=$work/repack conffile
  rm -rf "$folder"
  dpkg-deb --raw-extract "$1" "$folder"
  local version
  version=$(dpkg-deb --field "$1" Version)
  sed -i "s/$version/0.0.9-1/" "$folder/DEBIAN/control"
  for conffile in "$folder"/etc/harpe/*; do
    [ ! -e "$conffile" ] || echo "# Of a version before." >>"$conffile"
  done
  dpkg-deb --root-owner-group -Zgzip -z1 --build "$folder" "$2" >/dev/null
}

if [ -n "$root" ]; then
  work=$(dirname "$root")
  life
  exit
fi

[ "$(id -u)" = 0 ] || skip "making a root takes root"
for tool in cc cpack dpkg-shlibdeps file ip mmdebstrap pkg-config python3 readelf setpriv unshare; do
  command -v "$tool" >/dev/null || skip "$tool is missing"
done
unshare --mount --pid --net --fork true 2>/dev/null || skip "name spaces cannot be made here"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
root=$work/root

if [ "$1" = --packages ]; then
  mkdir "$work/new"
  cp "$2"/*.deb "$work/new"
else
  step "hardened"
  "$source_dir/scripts/check_hardened.sh" "$1"
  step "cpack"
  (cd "$1" && cpack -B "$work/new") >"$work/log" 2>&1 || { cat "$work/log"; fail "cpack"; }
fi
mkdir "$work/old"
for package in "$work/new"/*.deb; do older "$package" "$work/old"; done

if command -v lintian >/dev/null; then
  step "lintian"
  lintian --allow-root --fail-on error --tag-display-limit 0 --suppress-tags initial-upload-closes-no-bugs "$work/new"/*.deb ||
    fail "lintian"
fi

step "an empty Debian with the version before"
suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
mmdebstrap --quiet --variant=apt --include=systemd,python3 --skip=cleanup/apt --aptopt='APT::Install-Recommends "false"' \
  --dpkgopt=force-unsafe-io "$suite" "$root" >"$work/log" 2>&1 || { cat "$work/log"; skip "no Debian could be made of a mirror"; }
mkdir "$root/packages"
mv "$work/new" "$work/old" "$root/packages"
cp --remove-destination /etc/resolv.conf "$root/etc/resolv.conf"
install='apt-get install --yes -qq -o Acquire::Retries=5'
in_root sh -c "$install --download-only /packages/old/*.deb" >"$work/log" 2>&1 ||
  { cat "$work/log"; in_root sh -c "$install --simulate /packages/old/*.deb" && skip "the mirror sends no packages"; fail "installation"; }
in_root sh -c "$install /packages/old/*.deb" >"$work/log" 2>&1 || { cat "$work/log"; fail "installation"; }

PACKAGES_ROOT=$root unshare --mount --pid --net --fork --kill-child "$0"
echo "installed, upgraded, removed and purged"
