"""``python -m harpe`` is the command ``harpe``."""

from ._command import main

main()
