#!/bin/sh
# Runs a file of tests with an interpreter that has pytest; 77, CTest's word for "skipped", where it
# has none. Usage: run.sh INTERPRETER FILE [ARGUMENTS FOR PYTEST]
interpreter=$1
shift
if ! "$interpreter" -c 'import pytest, hypothesis' 2>/dev/null; then
  echo "$interpreter has no pytest: run scripts/install-dependencies.sh"
  exit 77
fi
"$interpreter" -m pytest -p no:cacheprovider --quiet "$@"
status=$?
[ $status -ne 5 ] || status=77  # all tests of the file were skipped, or there was none
exit $status
