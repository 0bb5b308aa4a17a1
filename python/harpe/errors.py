"""What can go wrong, as exceptions. Each is also the built-in exception that fits it, so that
``except ConnectionError`` works without knowing Harpe's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "ConflictError",
    "Diagnostic",
    "Error",
    "InfeasibleError",
    "InvalidInputError",
    "NoPermissionError",
    "NotFoundError",
    "NotSupportedError",
    "UnavailableError",
    "error_of",
]


@dataclass(frozen=True)
class Diagnostic:
    """One error in an input; line and column count from 1."""

    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        place = [str(part) for part in (self.file, self.line, self.column) if part is not None]
        return ": ".join(filter(None, (":".join(place), self.message)))


class Error(Exception):
    """A failure of Harpe or its server.

    ``code`` is the word that the command line and HTTP responses also use, such as ``"not_found"``;
    ``status`` is the status of the HTTP response, if there was one; ``diagnostics`` has the
    position of each error in an input.
    """

    code = "internal"
    diagnostics: tuple[Diagnostic, ...] = ()

    def __init__(
        self,
        message: str,
        status: int | None = None,
        diagnostics: Sequence[Diagnostic] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.diagnostics = tuple(diagnostics)


class InvalidInputError(Error, ValueError):
    """The input is wrong; the message has the position and the expected value."""

    code = "invalid_input"


class InfeasibleError(Error, ValueError):
    """The input is well-formed, but there is no solution, such as a deadline below the fastest
    plan."""

    code = "infeasible"


class RefusedError(Error):
    """A check rejected its input."""

    code = "refused"


class NotFoundError(Error, LookupError):
    """No such job, device or route."""

    code = "not_found"


class NoPermissionError(Error, PermissionError):
    """The token is missing, has expired, or does not allow this."""

    code = "no_permission"


class NotSupportedError(Error, NotImplementedError):
    """This server, device or driver does not support the operation."""

    code = "not_supported"


class UnavailableError(Error, ConnectionError):
    """Currently not available: no response, or no response in time."""

    code = "unavailable"


class ConflictError(Error):
    """Another client holds it, or it exists with different content."""

    code = "conflict"


class FileError(Error, OSError):
    """A file could not be read or written."""

    code = "io"


_KINDS: dict[str, type[Error]] = {
    kind.code: kind
    for kind in (
        Error,
        InvalidInputError,
        InfeasibleError,
        RefusedError,
        NotFoundError,
        NoPermissionError,
        NotSupportedError,
        UnavailableError,
        ConflictError,
        FileError,
    )
}

# For responses without a code, such as responses from proxies.
_BY_STATUS = {
    400: "invalid_input",
    401: "no_permission",
    403: "no_permission",
    404: "not_found",
    405: "invalid_input",
    409: "conflict",
    413: "invalid_input",
    422: "infeasible",
    429: "unavailable",
    501: "not_supported",
    502: "unavailable",
    503: "unavailable",
    504: "unavailable",
}


def error_of(
    code: str | None,
    message: str,
    status: int | None = None,
    diagnostics: Sequence[Diagnostic] = (),
) -> Error:
    """Returns the exception for a Harpe error code, or, if the code is unknown, for a status."""
    kind = _KINDS.get(code or "")
    if kind is None:
        kind = _KINDS[_BY_STATUS.get(status or 0, "internal")]
    return kind(message, status, diagnostics)
