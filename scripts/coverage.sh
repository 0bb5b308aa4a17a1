#!/usr/bin/env bash
# Runs the fast tests and reports which lines they ran; build/coverage/html has the details.
set -euo pipefail
cd "$(dirname "$0")/.."

./scripts/install-dependencies.sh
cmake --preset coverage >/dev/null
cmake --build --preset coverage
cd build/coverage
rm -rf profiles html
LLVM_PROFILE_FILE=$PWD/profiles/%4m.profraw ctest --parallel "$(nproc)" --output-on-failure
llvm-profdata-19 merge -o tests.profdata profiles/*.profraw

objects=()
while read -r program; do
  objects+=(-object "$program")
done < <(find src tests -type f -executable -not -name '*.so' | sort)
sources=(--ignore-filename-regex='_(test|bench|fuzz)\.cc$|/usr/')
llvm-cov-19 show -format=html -output-dir=html -instr-profile=tests.profdata "${objects[@]}" "${sources[@]}"
llvm-cov-19 report -instr-profile=tests.profdata "${objects[@]}" "${sources[@]}"
