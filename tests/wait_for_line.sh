# Sourced by the tests that start daemons: waits until a process reports that it is ready.

# wait_for_line PATTERN LOG PROCESS: waits up to 30 s, while the process lives. Without the line it fails, and prints
# the log.
wait_for_line() {
  for _ in $(seq 300); do
    if grep -q -- "$1" "$2"; then return; fi
    kill -0 "$3" 2>/dev/null || break
    sleep 0.1
  done
  cat "$2"
  return 1
}
