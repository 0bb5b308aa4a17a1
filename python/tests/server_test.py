"""The client of the server's HTTP interface: what it asks, and what it makes of any response.

The other end is Python's own HTTP server, which responds what a test says: also what Harpe's server
never would. Against ``harpe serve`` itself there is ``end_to_end_test.py``."""

from __future__ import annotations

import contextlib
import http.server
import ipaddress
import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import harpe
from harpe import errors
from harpe.server import Events


class Other:
    """A server with scripted responses, which records its requests."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.responses: list[tuple[int, str, bytes]] = []
        self.default = (200, "application/json", b"{}")
        other = self

        class Handler(http.server.BaseHTTPRequestHandler):
            wbufsize = -1  # sends head and body in one packet

            def respond(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                other.asked.append((self.command, self.path, body))
                other.headers.append({name.lower(): value for name, value in self.headers.items()})
                status, kind, content = other.responses.pop(0) if other.responses else other.default
                self.send_response(status)
                self.send_header("Content-Type", kind)
                if 300 <= status < 400:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_DELETE = respond  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def respond(self, status: int, body: Any, kind: str = "application/json") -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.responses.append((status, kind, content))

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture(scope="module")
def others() -> Iterator[Other]:
    other = Other()
    yield other
    other.close()


@pytest.fixture
def other(others: Other) -> Other:
    others.asked.clear()
    others.headers.clear()
    others.responses.clear()
    return others


@pytest.fixture
def job(other: Other) -> harpe.Job:
    return harpe.Server(other.url, timeout=5).job("gpt3")


Call = Callable[[harpe.Job], Any]

# The routes of docs/openapi.yaml.
CALLS: dict[str, tuple[Call, tuple[str, str, Any]]] = {
    "status": (lambda job: job.status(), ("GET", "/v1/jobs/gpt3", None)),
    "register": (lambda job: job.register({"stages": 2}), ("PUT", "/v1/jobs/gpt3", {"stages": 2})),
    "remove": (lambda job: job.remove(), ("DELETE", "/v1/jobs/gpt3", None)),
    "slowdown": (
        lambda job: job.set_objective(slowdown=0.05),
        ("PUT", "/v1/jobs/gpt3/objective", {"slowdown": 0.05}),
    ),
    "no slowdown": (
        lambda job: job.set_objective(slowdown=0),
        ("PUT", "/v1/jobs/gpt3/objective", {"slowdown": 0}),
    ),
    "deadline": (
        lambda job: job.set_objective(deadline_s=1.5),
        ("PUT", "/v1/jobs/gpt3/objective", {"deadline_s": 1.5}),
    ),
    "power cap": (
        lambda job: job.set_objective(power_cap_w=12000),
        ("PUT", "/v1/jobs/gpt3/objective", {"power_cap_w": 12000}),
    ),
    "least energy": (
        lambda job: job.set_objective(least_energy=True),
        ("PUT", "/v1/jobs/gpt3/objective", {"least_energy": True}),
    ),
    "straggler": (
        lambda job: job.straggler(1, 1.2),
        ("PUT", "/v1/jobs/gpt3/stragglers/1", {"factor": 1.2}),
    ),
    "straggler for a while": (
        lambda job: job.straggler(1, 1.2, for_s=60),
        ("PUT", "/v1/jobs/gpt3/stragglers/1", {"factor": 1.2, "for_s": 60}),
    ),
    "straggler until": (
        lambda job: job.straggler(0, 2, until=1.8e9),
        ("PUT", "/v1/jobs/gpt3/stragglers/0", {"factor": 2, "until": 1.8e9}),
    ),
    "healed": (lambda job: job.healed(1), ("DELETE", "/v1/jobs/gpt3/stragglers/1", None)),
    "energy": (lambda job: job.energy(), ("GET", "/v1/jobs/gpt3/energy", None)),
    "energy of a time": (
        lambda job: job.energy(begin=900, end=1800),
        ("GET", "/v1/jobs/gpt3/energy?from=900&to=1800", None),
    ),
    "frontier": (lambda job: job.frontier(), ("GET", "/v1/jobs/gpt3/frontier", None)),
    "plans": (lambda job: job.plans(), ("GET", "/v1/jobs/gpt3/plans", None)),
    "profile": (lambda job: job.profile(), ("GET", "/v1/jobs/gpt3/profile", None)),
    "events": (
        lambda job: job.events(data=0, stage=1).close(),
        ("GET", "/v1/jobs/gpt3/events?data=0&stage=1", None),
    ),
    "all events": (lambda job: job.events().close(), ("GET", "/v1/jobs/gpt3/events", None)),
}


@pytest.mark.parametrize("name", CALLS)
def test_each_call_asks_its_route(other: Other, job: harpe.Job, name: str) -> None:
    call, expected = CALLS[name]
    call(job)
    assert other.asked == [expected]


def test_responses_come_as_they_are(other: Other, job: harpe.Job) -> None:
    other.respond(200, {"jobs": [{"id": "gpt3", "phase": "running"}]})
    assert job.server.jobs() == [{"id": "gpt3", "phase": "running"}]
    other.respond(200, {"events": [{"sequence": 4}]})
    assert job.log(after=3) == [{"sequence": 4}]
    other.respond(200, b"stage,instruction\n", "text/csv")
    assert job.profile() == "stage,instruction\n"
    other.respond(200, {"status": "ok"})
    assert job.server.health() == {"status": "ok"}
    other.respond(200, b"# HELP x\n", "text/plain")
    assert job.server.metrics() == "# HELP x\n"
    other.respond(204, b"")
    assert job.healed(0) == {}
    assert [asked[1] for asked in other.asked][1] == "/v1/jobs/gpt3/log?after=3"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(min_size=1, max_size=20).filter(lambda text: text not in (".", "..")))
def test_an_id_stays_one_part_of_the_path(other: Other, id: str) -> None:
    try:
        id.encode()
    except UnicodeEncodeError:
        return
    other.asked.clear()
    harpe.Server(other.url).job(id).status()
    path = other.asked[0][1]
    assert path.count("/") == 3
    assert unquote(path.rsplit("/", 1)[1]) == id


@pytest.mark.parametrize("id", ["", ".", ".."])
def test_what_is_no_id_is_refused(id: str) -> None:
    with pytest.raises(harpe.InvalidInputError):
        harpe.Server("http://10.0.0.1:7787").job(id)


@pytest.mark.parametrize(
    "members", [{}, {"slowdown": 0.1, "deadline_s": 2}, {"least_energy": False}]
)
def test_an_objective_is_one(other: Other, job: harpe.Job, members: dict[str, Any]) -> None:
    with pytest.raises(harpe.InvalidInputError, match="exactly one"):
        job.set_objective(**members)
    assert other.asked == []


def test_a_slowdown_that_cannot_be_meant_is_asked_back(other: Other, job: harpe.Job) -> None:
    with pytest.raises(harpe.InvalidInputError, match=r"5 is 500 %; is 0\.05 meant\?"):
        job.set_objective(slowdown=5)
    assert other.asked == []


def test_the_token_goes_along_and_nowhere_else(
    other: Other, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARPE_SERVER", other.url)
    monkeypatch.setenv("HARPE_TOKEN", "secret")
    server = harpe.Server()
    assert "secret" not in repr(server)
    other.respond(200, {"jobs": []})
    server.jobs()
    assert other.headers[0]["authorization"] == "Bearer secret"
    other.respond(302, {})
    with pytest.raises(harpe.Error) as caught:
        server.jobs()
    assert caught.value.status == 302
    assert len(other.asked) == 2  # the redirection was not followed


# Errors.

KINDS = [
    (400, "invalid_input", harpe.InvalidInputError, ValueError),
    (403, "no_permission", harpe.NoPermissionError, PermissionError),
    (404, "not_found", harpe.NotFoundError, LookupError),
    (409, "conflict", harpe.ConflictError, harpe.Error),
    (422, "infeasible", harpe.InfeasibleError, ValueError),
    (501, "not_supported", harpe.NotSupportedError, NotImplementedError),
    (503, "unavailable", harpe.UnavailableError, ConnectionError),
    (500, "internal", harpe.Error, Exception),
]


@pytest.mark.parametrize(("status", "code", "kind", "builtin"), KINDS)
def test_each_refusal_is_its_exception(
    other: Other, job: harpe.Job, status: int, code: str, kind: type, builtin: type
) -> None:
    other.respond(status, {"error": {"code": code, "message": "what to do about it"}})
    with pytest.raises(builtin) as caught:
        job.status()
    assert type(caught.value) is kind
    assert str(caught.value) == "what to do about it"
    assert caught.value.code == code  # type: ignore[attr-defined]
    assert caught.value.status == status  # type: ignore[attr-defined]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 429, 500, 502, 503, 504, 599])
@pytest.mark.parametrize(
    "body",
    [b"", b"<html>Bad gateway</html>", b"[]", b'{"error": 5}', b'{"error": {"code": []}}', b"\xff"],
)
def test_a_refusal_of_somebody_else_is_an_exception_too(
    other: Other, job: harpe.Job, status: int, body: bytes
) -> None:
    other.respond(status, body, "text/html")
    with pytest.raises(harpe.Error, match=str(status)) as caught:
        job.status()
    assert caught.value.status == status


@pytest.mark.parametrize("body", [b"<html>", b"{", b"\xff\xfe", b"nonsense"])
def test_a_response_that_is_no_json_is_an_error(other: Other, job: harpe.Job, body: bytes) -> None:
    other.respond(200, body)
    with pytest.raises(harpe.UnavailableError, match="something else than JSON"):
        job.status()


def test_a_server_that_is_not_there_is_told_with_what_to_do() -> None:
    with pytest.raises(harpe.UnavailableError, match="harpe serve"):
        harpe.Server("127.0.0.1:9", timeout=5).jobs()


def test_a_server_that_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(harpe.UnavailableError):
            harpe.Server(url, timeout=0.2).jobs()


def test_a_server_that_speaks_otherwise_or_hangs_up_is_told() -> None:
    for response in (
        b"SSH-2.0-OpenSSH\r\n",
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nx",
    ):
        with socket.create_server(("127.0.0.1", 0)) as listening:

            def serve(listening: socket.socket = listening, response: bytes = response) -> None:
                connection, _ = listening.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(response)

            thread = threading.Thread(target=serve)
            thread.start()
            with pytest.raises(harpe.UnavailableError):
                harpe.Server(f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=5).health()
            thread.join()


def test_a_token_travels_to_loopback_addresses_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARPE_INSECURE", raising=False)
    requests: list[str | None] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.headers.get("Authorization"))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        here = f"http://127.0.0.1:{serving.server_port}"
        harpe.Server(here, token="s3cret").health()
        assert requests == ["Bearer s3cret"]
        # A name that begins like a loopback address, through a proxy on this machine.
        monkeypatch.setenv("http_proxy", here)
        with pytest.raises(errors.UnavailableError):
            harpe.Server("http://127.0.0.1.evil.test", token="s3cret").health()
        assert len(requests) == 1
        harpe.Server("http://127.0.0.1.evil.test").health()
        assert requests[1:] == [None]
        # Not a loopback address for the client, but a connection is possible.
        monkeypatch.delenv("http_proxy")
        monkeypatch.setattr(harpe.server, "ipaddress", _Beyond)
        with pytest.raises(errors.InvalidInputError, match="HARPE_INSECURE=1"):
            harpe.Server(here, token="s3cret").health()
        monkeypatch.setenv("HARPE_INSECURE", "1")
        harpe.Server(here, token="s3cret").health()
        serving.shutdown()
    assert requests[2:] == ["Bearer s3cret"]


class _Beyond:
    @staticmethod
    def ip_address(_: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
        return ipaddress.ip_address("192.0.2.1")


@pytest.mark.parametrize("url", ["ftp://10.0.0.1", "http://", "file:///etc/passwd"])
def test_what_is_no_address_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(harpe.InvalidInputError):
        harpe.Server(url)


def test_a_server_has_to_be_given() -> None:
    with pytest.raises(harpe.InvalidInputError, match="HARPE_SERVER"):
        harpe.Server()


@pytest.mark.parametrize("spec", [{"plans": float("nan")}, {"name": object()}])
def test_what_is_no_json_is_not_sent(other: Other, job: harpe.Job, spec: dict[str, Any]) -> None:
    with pytest.raises(harpe.InvalidInputError):
        job.register(spec)
    assert other.asked == []


def test_every_code_has_one_exception() -> None:
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, harpe.Error):
            assert type(errors.error_of(kind.code, "x")) is kind


# Events.


class Pieces:
    """A response whose bytes arrive in pieces."""

    def __init__(self, text: bytes) -> None:
        self._lines = text.splitlines(keepends=True)
        self.closed = False

    def readline(self, limit: int) -> bytes:
        return self._lines.pop(0) if self._lines else b""

    def close(self) -> None:
        self.closed = True


words = st.text(
    st.characters(codec="utf-8", exclude_characters="\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"),
    min_size=1,
    max_size=8,
)
data = st.dictionaries(words, st.one_of(st.integers(), words, st.none()), max_size=3)


@given(st.lists(st.tuples(st.sampled_from(["assignments", "phase", "log"]), data)), st.booleans())
def test_events_come_as_they_were_sent(sent: list[tuple[str, Any]], spaces: bool) -> None:
    space = " " if spaces else ""
    text = ": hello\n\n"
    for kind, body in sent:
        text += f"event:{space}{kind}\ndata:{space}{json.dumps(body)}\n\n: hb\n\n"
    end: tuple[str, dict[str, Any]] = ("phase", {"phase": "deleted"})
    text += f"event: {end[0]}\ndata: {json.dumps(end[1])}\n\n"
    with Events(Pieces(text.encode())) as events:
        assert [(event.kind, event.data) for event in events] == [*sent, end]


@given(st.binary(max_size=200))
def test_any_stream_ends_well(text: bytes) -> None:
    stream = Pieces(text)
    with Events(stream) as events, contextlib.suppress(harpe.UnavailableError):
        for event in events:
            assert isinstance(event.data, dict)
    assert stream.closed


def test_data_of_several_lines_are_one_event() -> None:
    events: list[harpe.Event] = []
    with pytest.raises(harpe.UnavailableError):
        events.extend(Events(Pieces(b'data: {"a":\ndata: 1}\n\ndata: {"cut": tr')))
    assert [(event.kind, event.data) for event in events] == [("message", {"a": 1})]


def test_events_are_read_off_a_connection(other: Other, job: harpe.Job) -> None:
    stream = (
        b'event: phase\ndata: {"phase": "running"}\n\nevent: phase\ndata: {"phase": "deleted"}\n\n'
    )
    other.respond(200, stream, "text/event-stream")
    with job.events() as events:
        assert [event.data["phase"] for event in events] == ["running", "deleted"]
