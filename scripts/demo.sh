#!/usr/bin/env bash
# Installs what is missing, builds Harpe and runs its main job once: a plan for a synthetic GPT-3-like
# pipeline of 8 A100 stages, with a report to look at.
#
#   scripts/demo.sh [DIRECTORY]      where to write (default: out/demo)
#   scripts/demo.sh run [DIRECTORY]  harpe demo: a training job on this machine, without a GPU: agent, server and eight ranks, from
#                                    the first iteration to a straggler and back (default: out/demo-run)
#   scripts/demo.sh carbon [DIRECTORY]  harpe demo carbon: the same job follows the carbon intensity of an invented grid for a day of two
#                                    minutes (default: out/demo-carbon)
#   scripts/demo.sh [run | carbon] --installed [DIRECTORY]  with the harpe of PATH and what is installed with it: nothing
#                                    is installed or built
#
# What it builds is in build/release, as for everything else.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/release
installed= running= out=
for argument in "$@"; do
  case $argument in
    --installed) installed=1 ;;
    run | carbon) running=$argument ;;
    -*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    *) out=$argument ;;
  esac
done
out=${out:-out/demo${running:+-$running}}

say() {  # say TEXT: prints a paragraph in lines of at most 80 columns
  printf '%s\n' "$*" | fold -s -w 80 | sed 's/ *$//'
}

if [ -n "$installed" ]; then
  harpe=$(command -v harpe) || { echo "there is no harpe on the PATH: docs/install.md says how to get it" >&2; exit 1; }
else
  # Planning needs neither agent nor server: a third of the build.
  targets=(harpe_planning)
  harpe=$build/src/harpe/command/plan_cli/harpe
  if [ -n "$running" ]; then
    targets=(harpe trainer)
    harpe=$build/src/harpe/command/cli/harpe
  fi
  ./scripts/install-dependencies.sh --build
  say "Building ${running:+the whole command, }in $build (the first time takes minutes, later ones seconds; log: build/demo.log)"
  ./scripts/build-release.sh build/demo.log "${targets[@]}"
fi

say_where() {  # say_where WHAT: prints how to continue with the command itself
  echo
  echo "harpe${1:+, $1,} is $(realpath -s "$harpe"). To have it on the PATH of this shell:"
  echo "  export PATH=$(dirname "$(realpath -s "$harpe")"):\$PATH"
}

if [ -n "$running" ]; then
  demo=(demo)
  [ "$running" = carbon ] && demo+=(carbon)
  "$harpe" "${demo[@]}" --out "$out"
  [ -n "$installed" ] || say_where ""
  exit
fi
mkdir -p "$out"
echo
say "1. A profile: what forward and backward of 8 stages cost at each clock of an A100 (synthetic)."
"$harpe" synth --gpu a100-sxm --stages 8 --imbalance 1.1 --out "$out/profile.csv"

echo
say "2. A plan that is no slower than the fastest possible iteration, with its certificate."
"$harpe" plan --profile "$out/profile.csv" --schedule 1f1b --micro-batches 32 --blocking-power 83.64 \
  --slowdown 0 --certificate --job demo --out "$out"

echo
say "3. The plan checked by code that knows nothing of the solver."
"$harpe" verify "$out/plan.json" --profile "$out/profile.csv" --certificate "$out/certificate.json"

summary=$("$harpe" plan --profile "$out/profile.csv" --micro-batches 32 --blocking-power 83.64 --json)
field() {  # field PLAN KEY: prints a number of the summary
  sed -n "/\"$1\": {/,/}/{s/.*\"$2\": \([-0-9.e+]*\).*/\1/;T;p;q}" <<<"$summary"
}
echo
say "$(LC_ALL=C printf 'In plain words: with the same work done and no slowdown, an iteration needs %.1f %% less energy than at maximum clocks (%.0f J instead of %.0f J). No choice of clocks at this speed can save more than another %.3f %%.' \
  "$(field chosen saving_percent)" "$(field chosen iteration_energy_j)" "$(field all_max iteration_energy_j)" \
  "$(LC_ALL=C awk -v needs="$(field chosen iteration_energy_j)" -v bound="$(field chosen tight_bound_j)" 'BEGIN { print 100 * (1 - bound / needs) }')")"
echo "Open the report in a browser: $out/report.html"
[ -n "$installed" ] || say_where "with the commands that plan"
echo "Next:"
echo "  harpe plan --profile $out/profile.csv --micro-batches 32 --blocking-power 83.64 --slowdown 5"
if [ -n "$installed" ]; then
  echo "  # the profile of your own training (docs/tutorial.md)"
  echo "  harpe profile measure -- python3 train.py"
else
  echo "  # builds all commands (run, serve, job, profile measure ...), trains by a plan"
  echo "  ./scripts/demo.sh run"
fi
