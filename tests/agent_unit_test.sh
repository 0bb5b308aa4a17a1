#!/bin/sh
# Checks that the service files are valid, expose little and limit memory, and that the agent accepts the
# example policy. Usage: agent_unit_test.sh SOURCE_DIR HARPE
set -eu
source=$1
harpe=$2
command -v systemd-analyze >/dev/null || { echo "systemd-analyze is missing"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for service in harpe-agent harpe-server; do
  sed "s|/usr/bin/harpe|$harpe|" "$source/packaging/systemd/$service.service" >"$folder/$service.service"
  grep -q "^MemoryMax=[0-9]*[MG]$" "$folder/$service.service"
done
cp "$source/packaging/systemd/harpe-agent.socket" "$folder"
systemd-analyze verify --man=no "$folder/harpe-agent.service" "$folder/harpe-agent.socket" \
  "$folder/harpe-server.service" >"$folder/said" 2>&1 || {
  cat "$folder/said"
  exit 1
}
if grep "harpe-agent\|harpe-server" "$folder/said"; then exit 1; fi
# Limits the exposure level, from 0 to 10.
limit_exposure() {
  systemd-analyze security --offline=true --threshold="$2" "$folder/$1.service" >"$folder/said" || {
    cat "$folder/said"
    exit 1
  }
  tail -1 "$folder/said"
}
limit_exposure harpe-agent 30   # 3.0
limit_exposure harpe-server 20  # 2.0

# Checks the server's options, including those that are commented out: only the option added here is
# unknown.
sed -n 's/^# \([a-z-]* = \)/\1/; /^[a-z]/p' "$source/packaging/server.toml" >"$folder/server.toml"
count=$(wc -l <"$folder/server.toml")
[ "$count" -gt 15 ]
echo "no-option = 1" >>"$folder/server.toml"
if "$harpe" serve --config "$folder/server.toml" 2>"$folder/said"; then exit 1; fi
[ "$(wc -l <"$folder/said")" = 1 ] && grep -q ":$((count + 1)):1: unknown option 'no-option'" "$folder/said" || {
  cat "$folder/said"
  exit 1
}

cp "$source/packaging/agent.toml" "$folder/agent.toml"
chmod 600 "$folder/agent.toml"
printf 'state_file = "%s/state"\n[[gpu]]\nmodel = "a40"\n' "$folder" >"$folder/sim.toml"
"$harpe" agent --policy "$folder/agent.toml" --simulate "$folder/sim.toml" --socket "$folder/agent.sock" 2>"$folder/log" &
agent=$!
for _ in $(seq 100); do
  if grep -q "listening on" "$folder/log"; then break; fi
  sleep 0.1
done
grep "listening on" "$folder/log" || { cat "$folder/log"; kill $agent; exit 1; }
kill $agent
wait $agent
