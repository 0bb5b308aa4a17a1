# To be sourced by scripts that build, with pipefail set.
#
# show_progress LOG COMMAND [ARGUMENTS]: writes the command's output to LOG, and shows Ninja's progress on a terminal.
# If the command fails, prints LOG and returns 1.
show_progress() {
  local log=$1 line status=0
  shift
  mkdir -p "$(dirname "$log")"
  "$@" 2>&1 | tee "$log" | while IFS= read -r line; do
    if [ -t 1 ] && [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
      printf '\r  step %s of %s' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
    fi
  done || status=1
  if [ -t 1 ]; then printf '\r\033[K'; fi
  [ $status = 0 ] || cat "$log"
  return $status
}
