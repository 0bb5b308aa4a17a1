#!/usr/bin/env bash
# Installs what is missing, builds Harpe and runs its main job once: a plan for a synthetic GPT-3-like
# pipeline of 8 A100 stages, with a report to look at.
#
#   scripts/demo.sh [DIRECTORY]      where to write (default: out/demo)
#   scripts/demo.sh run [DIRECTORY]  a training job on this machine, without a GPU: agent, server and eight ranks, from
#                                    the first iteration to a straggler and back (default: out/demo-run)
#   scripts/demo.sh carbon [DIRECTORY]  the same job follows the carbon intensity of an invented grid for a day of two
#                                    minutes (default: out/demo-carbon)
set -euo pipefail
cd "$(dirname "$0")/.."
# Planning alone needs neither agent nor server: a third of the build.
targets=(harpe_planning)
harpe=build/demo/src/harpe/plan_cli/harpe
running=
if [ "${1:-}" = run ] || [ "${1:-}" = carbon ]; then
  running=$1
  targets=(harpe trainer)
  harpe=build/demo/src/harpe/cli/harpe
  shift
fi
out=${1:-out/demo${running:+-$running}}

./scripts/install-dependencies.sh --build
log=build/demo.log
mkdir -p build
echo "Building (the first time takes a few minutes) ..."
{ cmake --preset release -DHARPE_BUILD_TESTS=OFF -DHARPE_BUILD_BENCHMARKS=OFF -B build/demo && cmake --build build/demo --target "${targets[@]}"; } \
  >"$log" 2>&1 || { cat "$log"; exit 1; }

if [ -n "$running" ]; then
  script=run_demo
  [ "$running" = carbon ] && script=run_carbon_demo
  exec python3 examples/$script.py --harpe "$harpe" --trainer build/demo/examples/trainer --out "$out"
fi
mkdir -p "$out"
echo
echo "1. A profile: what forward and backward of 8 stages cost at each clock of an A100 (synthetic)."
"$harpe" synth --gpu a100-sxm --stages 8 --imbalance 1.1 --out "$out/profile.csv"

echo
echo "2. A plan that is no slower than the fastest possible iteration, with its certificate."
"$harpe" plan --profile "$out/profile.csv" --schedule 1f1b --micro-batches 32 --blocking-power 83.64 \
  --slowdown 0 --certificate --job demo --out "$out"

echo
echo "3. The plan checked by code that knows nothing of the solver."
"$harpe" verify "$out/plan.json" --profile "$out/profile.csv" --certificate "$out/certificate.json"

summary=$("$harpe" plan --profile "$out/profile.csv" --micro-batches 32 --blocking-power 83.64 --json)
field() {  # field PLAN KEY: a number of the summary
  sed -n "/\"$1\": {/,/}/s/.*\"$2\": \([-0-9.e+]*\).*/\1/p" <<<"$summary" | head -n 1
}
echo
LC_ALL=C printf 'In plain words: with the same work done and no slowdown, an iteration needs %.1f %% less energy than at\nmaximum clocks (%.0f J instead of %.0f J). No choice of clocks at this speed can save more than another %.3f %%.\n' \
  "$(field chosen saving_percent)" "$(field chosen iteration_energy_j)" "$(field all_max iteration_energy_j)" \
  "$(field chosen gap_percent)"
echo "Open the report in a browser: $out/report.html"
