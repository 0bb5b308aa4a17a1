#!/usr/bin/env bash
# An installed copy can be used, and has the public headers alone: the examples build against it with
# find_package(harpe) and pkg-config and run, and so do the installed command, its man pages and its completions; its units
# name its prefix. What is not built is named, and nothing of it installed.
#
#   install_test.sh BUILD_DIR CXX_COMPILER C_COMPILER
set -euo pipefail
build=$1 compiler=$2 c_compiler=$3
source_dir=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/installed" >/dev/null
list=$source_dir/src/harpe/public_headers.txt
diff <(grep -v '^#' "$list" | sort) <(cd "$work/installed/include" && find . -type f -printf '%P\n' | sort) ||
  { echo "installed headers (>) are not those of $list (<)"; exit 1; }
# No rooms that only programs need are installed.
for room in agent cli http job plan_cli server store; do
  [ -z "$(find "$work/installed" -name "libharpe_$room.a")" ] || { echo "installed: the room $room"; exit 1; }
done

cp -r "$source_dir/examples" "$work/examples"  # away from the source tree, which must not be needed
cmake -S "$work/examples" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/installed" \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_C_COMPILER="$c_compiler" -DCMAKE_BUILD_TYPE=Release >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cmake --build "$work/build" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

# The same with pkg-config, for C++ and C.
if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH
  PKG_CONFIG_PATH=$(dirname "$(find "$work/installed" -name harpe.pc)")
  flags() { pkg-config --cflags --libs "$1"; }
  "$compiler" -std=c++20 -o "$work/plan_by_flags" "$work/examples/plan.cc" $(flags harpe)
  # This one needs the rooms that use libcurl.
  "$compiler" -std=c++20 -o "$work/trainer_by_flags" "$work/examples/trainer.cc" $(flags harpe)
  cc -o "$work/rank_by_flags" "$work/examples/rank.c" $(flags harpe-client) "-Wl,-rpath,$(pkg-config --variable=libdir harpe-client)"
fi

harpe=$work/installed/bin/harpe
"$harpe" synth --stages 4 --out "$work/profile.csv"
said=$("$work/build/plan" "$work/profile.csv")
echo "$said"
grep -q "J" <<<"$said"
mkdir "$work/certified"
said=$("$work/build/certify" "$work/profile.csv" "$work/certified")
echo "$said"
grep -q "proven" <<<"$said" && [ -s "$work/certified/report.html" ]
said=$("$work/build/objective" '{"power_cap_w": 900}')
echo "$said"
grep -q "power cap 900 W" <<<"$said"
said=$("$work/build/measure_clocks")
echo "$said"
grep -q "900 to 1410 MHz" <<<"$said"
for rank in "$work/build/rank" "$work"/rank_by_flags; do
  [ -e "$rank" ] || continue
  said=$(env -u HARPE_SERVER "$rank" 2>&1)
  grep -q "trained; no server" <<<"$said" || { echo "$rank: $said"; exit 1; }
done
if [ -e "$work/plan_by_flags" ]; then
  diff <("$work/build/plan" "$work/profile.csv") <("$work/plan_by_flags" "$work/profile.csv")
fi

# The demonstrations need no compiler: their ranks train, and `harpe demo` finds them and its own parts.
printf 'state_file = "%s"\n[[gpu]]\nmodel = "a40"\ncount = 2\n' "$work/ranks" >"$work/ranks.toml"
"$work/installed/libexec/harpe/trainer" --simulation "$work/ranks.toml" \
  --data 1 --stages 2 --forward-s 0.001 --iterations 3 --log "$work/iterations.csv"
[ "$(wc -l <"$work/iterations.csv")" -ge 7 ]
"$source_dir/tests/try_demo.sh" "$work/installed/bin/harpe"

# Units start the installed programs.
for unit in harpe-agent harpe-server; do
  program=$(sed -n 's/^ExecStart=\([^ ]*\).*/\1/p' "$work/installed/lib/systemd/system/$unit.service")
  [ "${program%/*}" = "$work/installed/bin" ] && [ -x "$program" ] || { echo "$unit starts '$program'"; exit 1; }
done

# Installs only one component.
cmake --install "$build" --prefix "$work/part" --component client >/dev/null
[ "$(cd "$work/part" && find . ! -type d -printf '%f ')" = "libharpe_client.so.1 " ] || { ls -R "$work/part"; exit 1; }
# Installs from a build directory in which nothing is built.
cmake -S "$source_dir" -B "$work/bare" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_C_COMPILER="$c_compiler" -DHARPE_BUILD_TESTS=OFF \
  -DHARPE_BUILD_BENCHMARKS=OFF -DHARPE_BUILD_PYTHON=OFF >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
said=$(cmake --install "$work/bare" --prefix "$work/nothing" 2>&1) && exit 1
grep -q -- "--target harpe_installable" <<<"$said" || { echo "not built: $said"; exit 1; }
[ ! -e "$work/nothing" ] || { find "$work/nothing"; exit 1; }

# `harpe agent` starts the installed daemon, so it prints an error that only the daemon detects.
said=$(PATH=/usr/bin:/bin "$harpe" agent --simulate "$work/none.toml" 2>&1) && exit 1
grep -q "needs its own --socket" <<<"$said" || { echo "installed agent: $said"; exit 1; }

# `harpe lab` starts the installed program; without it the message names the package, for any arguments.
said=$(PATH=/usr/bin:/bin "$harpe" lab reproduce --help)
grep -q sosp24 <<<"$said" || { echo "installed harpe-lab: $said"; exit 1; }
cp "$harpe" "$work/harpe"
said=$(PATH=/usr/bin:/bin "$work/harpe" lab reproduce sosp24 "$work" --out "$work/none.csv" 2>&1) && exit 1
grep -q "install the package harpe-lab" <<<"$said" || { echo "harpe without harpe-lab: $said"; exit 1; }

# A command of harpe-lab typed without `lab` does the same.
said=$(PATH=/usr/bin:/bin "$harpe" replay zeus --help)
grep -q "Usage: harpe replay zeus" <<<"$said" || { echo "installed harpe replay: $said"; exit 1; }
said=$(PATH=/usr/bin:/bin "$work/harpe" carbon simulate --series none.csv 2>&1) && exit 1
grep -q "install the package harpe-lab" <<<"$said" || { echo "harpe without harpe-lab: $said"; exit 1; }
cmake --install "$build" --prefix "$work/lab" --component lab >/dev/null
pages=$(cd "$work/lab/share/man/man1" && echo harpe-*)
expected="harpe-carbon-backtest.1 harpe-carbon-simulate.1 harpe-lab-emulate.1 harpe-lab-reproduce-sosp24.1 harpe-lab-reproduce.1"
expected+=" harpe-lab.1 harpe-replay-groups.1 harpe-replay-power-limit.1 harpe-replay-zeus.1 harpe-replay.1"
[ "$pages" = "$expected" ] || { echo "man pages of harpe-lab: $pages"; exit 1; }
cmake --install "$build" --prefix "$work/command" --component command >/dev/null
both=$(cd "$work/command" && find share/man -name '*.1' | while read -r page; do [ ! -e "$work/lab/$page" ] || echo "$page"; done)
[ -z "$both" ] || { echo "of two packages: $both"; exit 1; }

for command in "" plan schedule verify profile synth predict agent lab lab-emulate lab-reproduce-sosp24 replay-zeus carbon-simulate; do
  page=$work/installed/share/man/man1/harpe${command:+-$command}.1
  [ -s "$page" ] || { echo "missing: $page"; exit 1; }
  if command -v man >/dev/null; then
    warnings=$(LC_ALL=C.UTF-8 MANROFFSEQ= MANWIDTH=80 man --warnings=all -E UTF-8 -l -Tutf8 "$page" 2>&1 >/dev/null)
    [ -z "$warnings" ] || { echo "$page: $warnings"; exit 1; }
  fi
done
bash -n "$work/installed/share/bash-completion/completions/harpe"
# The simulated NVML is installed where only LD_LIBRARY_PATH finds it.
nvml=$(dirname "$(find "$work/installed" -name libnvidia-ml.so.1)")
[ "$(basename "$nvml")" = simulated-nvml ]
printf 'state_file = "%s"\n[[gpu]]\nmodel = "a40"\ncount = 3\n' "$work/state" >"$work/simulation.toml"
gpus=$(HARPE_SIMULATION=$work/simulation.toml PYTHONPATH=$nvml PYTHONDONTWRITEBYTECODE=1 \
  python3 -c 'import harpe_sim; print(harpe_sim.gpus())')
[ "$gpus" = 3 ] || { echo "installed simulation: $gpus GPUs"; exit 1; }
said=$(HARPE_SIMULATION=$work/simulation.toml "$work/build/simulated_load")
echo "$said"
grep -q "W at" <<<"$said"
HARPE_SIMULATION=$work/simulation.toml "$work/build/measure_energy" "$work/energy.csv"
grep -q "gpu2_energy" "$work/energy.csv"

[ -s "$work/installed/share/zsh/site-functions/_harpe" ]
[ -s "$work/installed/share/fish/vendor_completions.d/harpe.fish" ]
