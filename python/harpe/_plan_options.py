"""What ``harpe.plan`` is given, as options of ``harpe plan``; its answers in words of Python."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any

from .errors import InvalidInputError

__all__ = ["arguments_of", "fraction", "in_python", "percentage"]


def arguments_of(options: Mapping[str, Any]) -> Iterable[str]:
    for name, value in options.items():
        if value is None or value is False:
            continue
        if value is True:
            yield f"--{name}"
        elif isinstance(value, str):
            yield from (f"--{name}", value)
        else:
            numbers = value if isinstance(value, Iterable) else [value]
            yield from (f"--{name}", ",".join(_number(name, number) for number in numbers))


def _number(name: str, number: Any) -> str:
    if isinstance(number, bool) or not hasattr(number, "__float__"):
        raise InvalidInputError(f"{_parameter(name)} is a number, not {number!r}")
    return repr(number) if isinstance(number, int) else repr(float(number))


def percentage(slowdown: Any) -> str:
    """Returns a fraction, or a percentage as text, in the form that the command accepts."""
    if isinstance(slowdown, str) and slowdown.rstrip().endswith("%"):
        return slowdown
    return repr(100 * fraction(slowdown, ", or a text such as '5%'"))


def fraction(slowdown: Any, or_else: str = "") -> float:
    """Returns a slowdown as a fraction. Raises if it is not plausible."""
    if isinstance(slowdown, (bool, str)) or not hasattr(slowdown, "__float__"):
        raise InvalidInputError(f"slowdown is a fraction such as 0.05{or_else}, not {slowdown!r}")
    if not slowdown >= 0:
        raise InvalidInputError(f"slowdown is a fraction of 0 or more, not {slowdown!r}")
    # The plan of least energy hardly ever takes twice as long; larger values are likely
    # percentages.
    if slowdown >= 1:
        raise InvalidInputError(
            f"slowdown is a fraction: {slowdown:g} is {100 * slowdown:g} %; is"
            f" {slowdown / 100:g} meant? (for the least energy, however long it takes:"
            " least_energy=True)"
        )
    return float(slowdown)


def _parameter(option: str) -> str:
    """Returns the parameter of ``harpe.plan`` for an option: --micro-batches, --deadline
    (deadline_s)."""
    from .planning import plan  # which imports this module

    bare = option.replace("-", "")
    for name, parameter in inspect.signature(plan).parameters.items():
        words = name.split("_")
        # For a plain number, the name of the parameter ends with its unit.
        if bare in ("".join(words), "".join(words[:-1])):
            return f"{name}=True" if parameter.annotation == "bool" else name
    return option.replace("-", "_")


def in_python(text: str) -> str:
    """Returns a message of the command with parameters in place of its options."""
    return re.sub(r"(?<!\S)--([a-z][a-z-]*)", lambda option: _parameter(option[1]), text)
