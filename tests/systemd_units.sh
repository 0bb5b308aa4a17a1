#!/usr/bin/env bash
# Both units under systemd itself, as the first process of a name space, in a root where Harpe is installed: they start, start
# again after kill -9, and the server has the environment of server.env and waits for PostgreSQL. Its settings in ROOT/etc/harpe
# are other ones afterwards.
#
#   systemd_units.sh ROOT    77: systemd does not run here
set -euo pipefail
root=$1
skip() { echo "skipped: $1"; exit 77; }
fail() {
  echo "systemd: $1" >&2
  inside journalctl --no-pager --lines 40 >&2 || true
  exit 1
}
step() { echo "== systemd: $1"; }

boot() {
  mount --make-rprivate /
  mount --bind "$root" "$root"
  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro sysfs "$root/sys"
  mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
  mount -t tmpfs -o mode=755 tmpfs "$root/run"
  mount -t tmpfs -o mode=755 tmpfs "$root/dev"
  local device
  for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
  done
  mkdir "$root/dev/shm" "$root/dev/pts"  # without them PrivateDevices= fails
  mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
  ln -s pts/ptmx "$root/dev/ptmx"
  mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
  ip link set lo up
  cd "$root"
  mkdir -p run/before
  pivot_root . run/before
  umount -l /run/before
  exec env -i container=harpe PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=multi-user.target --log-target=journal \
    --show-status=no
}
if [ "${2:-}" = --boot ]; then boot; fi

inside() { nsenter --target "$first" --all env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "$@"; }
value() { inside systemctl show --value --property "$2" "$1"; }
# eventually WHAT COMMAND...: waits up to a minute.
eventually() {
  local what=$1 i
  shift
  for i in $(seq 600); do
    if "$@"; then return; fi
    sleep 0.1
  done
  fail "$what"
}
is() { [ "$(value "$1" "$2")" = "$3" ]; }
has_booted() { [[ $(inside systemctl is-system-running 2>/dev/null) =~ running|degraded ]]; }
started_again() { is "$1" ActiveState active && ! is "$1" MainPID "$2"; }

cgroups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
[ -n "$cgroups" ] || skip "there is no cgroup2"
own=$cgroups/harpe-systemd-$$
mkdir "$own" 2>/dev/null || skip "no cgroup can be made here"
log=$(mktemp)
outer=
# shellcheck disable=SC2317
end() {
  [ -z "$outer" ] || { kill -KILL "$outer" 2>/dev/null && wait "$outer" 2>/dev/null; } || true
  for _ in $(seq 50); do
    find "$own" -depth -type d -exec rmdir {} + 2>/dev/null && break
    sleep 0.1
  done
  rm -f "$log"
}
trap end EXIT
(
  echo "$BASHPID" >"$own/cgroup.procs"
  exec unshare --pid --fork --mount --cgroup --net --uts --ipc --kill-child "$0" "$root" --boot
) >"$log" 2>&1 &
outer=$!
first=
for _ in $(seq 600); do
  first=$(cat "/proc/$outer/task/$outer/children" 2>/dev/null) || true
  first=${first% }
  [ -z "$first" ] || [ "$(cat "/proc/$first/comm" 2>/dev/null)" != systemd ] || ! has_booted || break
  kill -0 "$outer" 2>/dev/null || { cat "$log"; skip "systemd does not boot here"; }
  sleep 0.1
done
has_booted || { cat "$log"; skip "systemd does not boot here"; }

step "both units start"
inside sh -c 'mkdir -p /run/systemd/system/harpe-server.service.d
  # Shorter than the time that the server should wait for PostgreSQL.
  printf "[Service]\nTimeoutStartSec=5\n" >/run/systemd/system/harpe-server.service.d/test.conf
  echo "PGAPPNAME=of-the-unit" >>/etc/harpe/server.env'
inside systemctl daemon-reload
for unit in harpe-agent harpe-server; do
  inside systemctl restart "$unit" || fail "$unit does not start"
  is "$unit" ActiveState active || fail "$unit is $(value "$unit" ActiveState)"
done

step "kill -9"
for unit in harpe-agent harpe-server; do
  before=$(value "$unit" MainPID)
  inside sh -c "kill -KILL $before"
  eventually "$unit was not started again" started_again "$unit" "$before"
done

step "server.env"
inside sh -c "tr '\\0' '\\n' </proc/$(value harpe-server MainPID)/environ" | grep -q "^PGAPPNAME=of-the-unit$" ||
  fail "the server does not have the environment of server.env"

step "PostgreSQL is away"
inside sh -c "sed -i '/^store *=/d' /etc/harpe/server.toml && echo 'store = \"postgresql://harpe@127.0.0.1:1/harpe\"' >>/etc/harpe/server.toml"
inside systemctl restart --no-block harpe-server
eventually "the server does not say that it waits" is harpe-server StatusText "waiting for PostgreSQL"
waits=$(value harpe-server MainPID)
# Longer than the unit's limit on a start, which the server must have extended.
waited() { [ "$(($(date +%s) - began))" -ge 8 ]; }
began=$(date +%s)
eventually "time stands still" waited
is harpe-server ActiveState activating && is harpe-server MainPID "$waits" || fail "the server does not wait for PostgreSQL"
inside systemctl stop harpe-server
is harpe-server Result success || fail "the server that waited did not end in order: $(value harpe-server Result)"
inside systemctl stop harpe-agent harpe-agent.socket
is harpe-agent Result success || fail "the agent did not end in order: $(value harpe-agent Result)"
echo "both units run"
