"""A client of the server's HTTP interface, for operators and notebooks."""

from __future__ import annotations

import http.client
import ipaddress
import json
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple

from ._plan_options import fraction
from .errors import InvalidInputError, UnavailableError, error_of
from .recurring import RecurringJob

__all__ = ["Event", "Job", "Server"]

_LONGEST_LINE = 64 << 20
"""Bytes of one line of a stream; assignments of long schedules are long."""


class Event(NamedTuple):
    """An event that the server sent."""

    kind: str
    """One of "assignments", "phase" and "log"."""
    data: dict[str, Any]


class Server:
    """A running ``harpe serve``.

    Missing arguments are taken from ``HARPE_SERVER``, ``HARPE_TOKEN`` or ``HARPE_TOKEN_FILE``, and
    ``HARPE_CA_FILE``. A token file is read for each request::

        server = harpe.Server("http://10.0.0.1:7787")
        for job in server.jobs():
            print(job["id"], job["phase"])
        server.job("gpt3").set_objective(slowdown=0.05)

    Every method sends a request and waits for the response, ``timeout`` seconds at most; errors
    raise the exceptions in ``harpe.errors``. May be used from several threads.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        timeout: float = 10.0,
    ) -> None:
        url = url or os.environ.get("HARPE_SERVER")
        if not url:
            raise InvalidInputError("no server is given: give its URL, or set HARPE_SERVER")
        if "://" not in url:
            url = "http://" + url
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInputError(f"a server's URL is like http://10.0.0.1:7787, not {url!r}")
        self.url = url.rstrip("/")
        self.timeout = timeout
        self._token_file = None if token else token_file or os.environ.get("HARPE_TOKEN_FILE")
        self._token = token or os.environ.get("HARPE_TOKEN")
        context = None
        if parts.scheme == "https":
            trusted = ca_file or os.environ.get("HARPE_CA_FILE")
            context = ssl.create_default_context(cafile=os.fspath(trusted) if trusted else None)
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=context), _NoRedirect()
        )
        # A token is sent only over TLS or to a loopback address; a proxy could forward it
        # elsewhere.
        self._token_opener = self._opener
        if parts.scheme == "http" and os.environ.get("HARPE_INSECURE") != "1":
            self._token_opener = urllib.request.build_opener(
                urllib.request.ProxyHandler({}), _LoopbackHandler(), _NoRedirect()
            )

    def __repr__(self) -> str:
        return f"harpe.Server({self.url!r})"

    # Jobs.

    def jobs(self) -> list[dict[str, Any]]:
        """Returns the status of every job."""
        response: list[dict[str, Any]] = self.ask("GET", "/v1/jobs")["jobs"]
        return response

    def job(self, id: str) -> Job:
        """Returns one job, by its id. Sends no request."""
        return Job(self, id)

    def recurring_job(self, id: str) -> RecurringJob:
        """Returns a recurring job, by its id. Sends no request."""
        return RecurringJob(self, id)

    # The server itself.

    def health(self) -> dict[str, Any]:
        response: dict[str, Any] = self.ask("GET", "/health")
        return response

    def metrics(self) -> str:
        """Returns metrics in Prometheus format."""
        return self._text("GET", "/metrics")

    def carbon_sources(self) -> list[dict[str, Any]]:
        """Returns the sources of carbon intensity of this server, with their current values."""
        sources: list[dict[str, Any]] = self.ask("GET", "/v1/carbon")["sources"]
        return sources

    # Requests.

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Sends a request to any route. Returns its JSON, or None without content."""
        text = self._text(method, path, body)
        if not text:
            return None
        try:
            return json.loads(text)
        except ValueError:
            raise UnavailableError(
                f"{self.url} responded to {method} {path} with something else than JSON; is it "
                "Harpe's server, and no proxy in front of it?"
            ) from None

    def _text(self, method: str, path: str, body: Any = None) -> str:
        with self.open(method, path, body, self.timeout) as response:
            try:
                text: str = response.read().decode("utf-8", "replace")
                return text
            except (OSError, http.client.HTTPException) as error:
                raise _unavailable(self.url, error) from None

    def open(self, method: str, path: str, body: Any = None, timeout: float | None = None) -> Any:
        """Returns the response to a request as a file, once it has begun."""
        data = None
        headers = {"Accept": "application/json, text/event-stream, text/csv;q=0.9, */*;q=0.1"}
        if body is not None:
            try:
                data = json.dumps(body, allow_nan=False).encode()
            except (TypeError, ValueError) as error:
                raise InvalidInputError(f"that is not JSON: {error}") from None
            headers["Content-Type"] = "application/json"
        opener = self._opener
        if token := self._fresh_token():
            headers["Authorization"] = f"Bearer {token}"
            opener = self._token_opener
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            return opener.open(request, timeout=timeout)
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(error) from None
        except (OSError, http.client.HTTPException) as error:
            raise _unavailable(self.url, error) from None

    def _fresh_token(self) -> str | None:
        if not self._token_file:
            return self._token
        try:
            with open(self._token_file, encoding="ascii") as file:
                return file.read().strip()
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"the token cannot be read: {error}") from None


class Job:
    """One job of a server. Responses are those of docs/openapi.yaml, as dictionaries."""

    def __init__(self, server: Server, id: str) -> None:
        if not id:
            raise InvalidInputError("a job's id is a text that is not empty")
        self.server = server
        self.id = id
        # Quoting does not change "." and "..", which would lead to other paths.
        if id in (".", ".."):
            raise InvalidInputError(f"no job's id is {id!r}")
        self._path = "/v1/jobs/" + urllib.parse.quote(id, safe="")

    def __repr__(self) -> str:
        return f"{self.server!r}.job({self.id!r})"

    def register(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Registers the job. Repeating it is harmless; a different specification is a conflict."""
        return self._ask("PUT", "", dict(spec))

    def status(self) -> dict[str, Any]:
        """Returns phase, progress, stragglers, predictions and measurements."""
        return self._ask("GET", "")

    def remove(self) -> None:
        """Removes the job; its ranks continue at all-max."""
        self._ask("DELETE", "")

    def set_pace(
        self,
        *,
        iteration_time_s: float | None = None,
        pause: bool = False,
        resumes: float | None = None,
        why: str = "",
    ) -> dict[str, Any]:
        """Sets a temporary pace that replaces the objective, or requests a pause, until about
        ``resumes`` (seconds since 1970). With neither of the two the objective applies again.
        ``why`` is for users, such as "412 g/kWh"."""
        members: dict[str, Any] = {"pause": pause, "why": why}
        if iteration_time_s is not None:
            members["iteration_time_s"] = iteration_time_s
        if resumes is not None:
            members["resumes"] = resumes
        return self._ask("PUT", "/pace", members)

    def pause(self) -> dict[str, Any] | None:
        """Returns the requested pause, with its ``state``; None if there is none."""
        found: dict[str, Any] | None = self._ask("GET", "/pause")["pause"]
        return found

    def set_carbon(self, terms: Mapping[str, Any] | None) -> dict[str, Any]:
        """Lets the job move along its frontier with the carbon intensity of its grid, or, with
        None, follow its objective again: ``{"zone": "DE", "iterations": 50000, "deadline_factor":
        1.25, "pause": True}``; for unknown length ``{"zone": "DE", "slack_s": 43200,
        "deadline_factor": 1.25, "pause": True}``. Sources are those of ``Server.carbon_sources``.
        See docs/carbon.md."""
        if terms is None:
            return self._ask("DELETE", "/carbon")
        return self._ask("PUT", "/carbon", dict(terms))

    def carbon(self) -> dict[str, Any] | None:
        """Returns the carbon terms of the job, and the last decision; None without."""
        return self._ask("GET", "/carbon") or None

    def set_objective(
        self,
        *,
        slowdown: float | None = None,
        deadline_s: float | None = None,
        straggler_s: float | None = None,
        straggler_factor: float | None = None,
        power_cap_w: float | None = None,
        least_energy: bool = False,
    ) -> dict[str, Any]:
        """Sets the point of the frontier to run at from now on; exactly one argument is given.

        ``slowdown`` is a fraction (0.05: at most five percent longer than the fastest possible
        iteration), ``deadline_s`` seconds per iteration, ``straggler_s`` the seconds of a pipeline
        that all others wait for, ``straggler_factor`` the same relative to iterations at all-max,
        ``power_cap_w`` average watts of the whole job.
        """
        members: dict[str, Any] = {
            "slowdown": None if slowdown is None else fraction(slowdown),
            "deadline_s": deadline_s,
            "straggler_s": straggler_s,
            "straggler_factor": straggler_factor,
            "power_cap_w": power_cap_w,
            "least_energy": least_energy or None,
        }
        given = {name: value for name, value in members.items() if value is not None}
        if len(given) != 1:
            raise InvalidInputError(f"give exactly one of {', '.join(members)}")
        return self._ask("PUT", "/objective", given)

    def straggler(
        self,
        pipeline: int,
        factor: float,
        *,
        until: float | None = None,
        for_s: float | None = None,
    ) -> dict[str, Any]:
        """Declares that a pipeline takes ``factor`` times as long as planned.

        The others then slow down as far as this costs no time. ``until`` is in seconds since 1970;
        without it and ``for_s`` it holds until :meth:`healed`.
        """
        body: dict[str, Any] = {"factor": factor}
        if until is not None:
            body["until"] = until
        if for_s is not None:
            body["for_s"] = for_s
        return self._ask("PUT", f"/stragglers/{int(pipeline)}", body)

    def healed(self, pipeline: int) -> dict[str, Any]:
        """Declares that a pipeline is back to its planned speed."""
        return self._ask("DELETE", f"/stragglers/{int(pipeline)}")

    def frontier(self) -> dict[str, Any]:
        """Returns time and energy of all plans, fastest first."""
        return self._ask("GET", "/frontier")

    def plans(self) -> dict[str, Any]:
        """Returns all plans in full."""
        return self._ask("GET", "/plans")

    def plan(
        self, pipeline: int = 0, *, path: str | os.PathLike[str] | None = None
    ) -> dict[str, Any]:
        """Returns the plan that a pipeline runs, with its lower bound: ``harpe.plan/1``.

        ``path`` is a file to write it to, identical to that of ``harpe plan`` for the same inputs.
        """
        return self._document(f"/plan?pipeline={int(pipeline)}", path)

    def certificate(
        self, pipeline: int = 0, *, path: str | os.PathLike[str] | None = None
    ) -> dict[str, Any]:
        """Returns the proof of the plan's lower bound; ``harpe verify`` checks both."""
        return self._document(f"/certificate?pipeline={int(pipeline)}", path)

    def energy(self, *, begin: int | None = None, end: int | None = None) -> dict[str, Any]:
        """Returns the energy of the job, by quarter of an hour and start of training:
        ``harpe.energy/1``.

        ``begin`` and ``end``, in seconds since 1970, select intervals that begin at or after
        ``begin`` and before ``end``. ``harpe carbon report`` computes grams from it.
        """
        query = [f"{key}={int(at)}" for key, at in (("from", begin), ("to", end)) if at is not None]
        return self._ask("GET", "/energy" + ("?" + "&".join(query) if query else ""))

    def profile(self) -> str:
        """Returns the costs of instructions as CSV, for ``harpe plan``."""
        return self.server._text("GET", self._path + "/profile")

    def _document(self, below: str, path: str | os.PathLike[str] | None) -> dict[str, Any]:
        text = self.server._text("GET", self._path + below)
        document: dict[str, Any] = json.loads(text)
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return document

    def log(self, after: int = 0) -> list[dict[str, Any]]:
        """Returns the log, oldest first, after the entry with that sequence number."""
        response = self._ask("GET", f"/log?after={int(after)}")
        events: list[dict[str, Any]] = response["events"]
        return events

    def events(
        self, *, data: int | None = None, stage: int | None = None, timeout: float = 60.0
    ) -> Events:
        """Returns the stream of events from now on; it ends when the job is removed.

        If the server becomes unavailable, the loop raises :class:`UnavailableError`; call it again.
        With ``data`` and ``stage`` the stream includes the assignments for that stage of that
        pipeline. ``timeout`` is the longest time without data; the server sends a keep-alive every
        15 seconds::

            with job.events() as events:
                for event in events:
                    print(event.kind, event.data)
        """
        query = {"data": data, "stage": stage}
        given = {name: int(value) for name, value in query.items() if value is not None}
        path = self._path + "/events"
        if given:
            path += "?" + urllib.parse.urlencode(given)
        return Events(self.server.open("GET", path, timeout=timeout), self.server.url)

    def _ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        response: dict[str, Any] | None = self.server.ask(method, self._path + path, body)
        return {} if response is None else response


class Events:
    """A stream of events; iterate over it. Close it, or use it in ``with``."""

    def __init__(self, response: Any, url: str = "") -> None:
        self._response = response
        self._url = url

    def __iter__(self) -> Iterator[Event]:
        kind = "message"
        data: list[str] = []
        removed = False
        while True:
            try:
                line = self._response.readline(_LONGEST_LINE)
            except (OSError, ValueError, http.client.HTTPException) as error:
                raise _unavailable(self._url, error) from None
            if not line:
                if removed:
                    return
                raise UnavailableError(
                    f"{self._url} has ended the stream of events; ask again, when it is there again"
                )
            if len(line) >= _LONGEST_LINE:
                raise UnavailableError(f"{self._url} sends a line that does not end")
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            if not text:
                event = _event(kind, data)
                if event is not None:
                    removed = event.kind == "phase" and event.data.get("phase") == "deleted"
                    yield event
                kind, data = "message", []
                continue
            field, _, value = text.partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                kind = value
            elif field == "data":
                data.append(value)

    def close(self) -> None:
        self._response.close()

    def __enter__(self) -> Events:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _LoopbackConnection(http.client.HTTPConnection):
    """Connects only to loopback addresses, whatever the name of its host is."""

    def connect(self) -> None:
        super().connect()
        address = ipaddress.ip_address(self.sock.getpeername()[0].partition("%")[0])
        mapped = getattr(address, "ipv4_mapped", None) or address
        if not mapped.is_loopback:
            self.close()
            raise InvalidInputError(
                "a token is sent over https:// or to a loopback address only, and "
                f"http://{self.host}:{self.port} is neither; where the network is trusted, set "
                "HARPE_INSECURE=1"
            )


class _LoopbackHandler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_LoopbackConnection, req)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the server sends none, and other servers must not get the token."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _event(kind: str, data: list[str]) -> Event | None:
    if not data:
        return None
    try:
        read = json.loads("\n".join(data))
    except ValueError:
        return None
    return Event(kind, read if isinstance(read, dict) else {"value": read})


def _refusal(refused: urllib.error.HTTPError) -> Exception:
    """Returns the server's error, or one for the status if there is no readable error."""
    try:
        text = refused.read(1 << 20).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        text = ""
    code, message = None, f"{refused.code} {refused.reason}"
    try:
        response = json.loads(text)
        error = response.get("error") if isinstance(response, dict) else None
        if isinstance(error, dict):
            code, message = error.get("code"), str(error.get("message") or message)
        elif isinstance(error, str):
            message = error
    except ValueError:
        pass
    return error_of(code if isinstance(code, str) else None, message, refused.code)


def _unavailable(url: str, error: BaseException) -> UnavailableError:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    why = str(reason) or type(reason).__name__
    hint = "is harpe serve running there?"
    if "certificate" in why:
        hint = "HARPE_CA_FILE names certificates to trust"
    return UnavailableError(f"{url} does not respond: {why}; {hint}")
