# Sourced by the tests that start daemons: waits for a process to say that it is ready.

# wait_for_line PATTERN LOG PROCESS: for at most 30 s, and no longer than the process lives; fails, with the log on standard
# output, where the line has not come by then.
wait_for_line() {
  for _ in $(seq 300); do
    if grep -q -- "$1" "$2"; then return; fi
    kill -0 "$3" 2>/dev/null || break
    sleep 0.1
  done
  cat "$2"
  return 1
}
