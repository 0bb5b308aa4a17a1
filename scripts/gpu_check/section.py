"""One section of the check, in a process of its own: python3 -m gpu_check.section NAME CONTEXT RESULT"""

import importlib
import json
import os
import sys
import traceback

SECTIONS = ("driver", "counter", "joules", "hooks", "model")


def main():
    name, context_file, result_file = sys.argv[1:]
    with open(context_file, encoding="utf-8") as file:
        context = json.load(file)

    def emit(result):
        # Written atomically, so that partial results are kept if this process is ended.
        with open(result_file + ".new", "w", encoding="utf-8") as file:
            json.dump(result, file)
        os.replace(result_file + ".new", result_file)

    try:
        importlib.import_module(f"gpu_check.{name}").run(context, emit)
    except Exception as error:
        traceback.print_exc()
        sys.exit(str(error) if str(error).startswith("skipped: ") else f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
