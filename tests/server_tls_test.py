#!/usr/bin/env python3
"""`harpe serve` over TLS with a certificate of an authority, seen by the Python client and by plain sockets:
who is trusted, which token is good for what, and the pulse of the event stream.
Usage: server_tls_test.py HARPE"""

import base64
import hashlib
import hmac
import json
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

import harpe
import server_process
from server_process import CLOCKS, ServerTest, specification

KEY = "0123456789abcdef0123456789abcdef"
HEARTBEAT_S = 15  # docs/openapi.yaml


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def own_token(claims, key=KEY, algorithm="HS256"):
    """Returns a token that Harpe did not issue."""
    parts = [encoded(json.dumps(part).encode()) for part in ({"alg": algorithm, "typ": "JWT"}, claims)]
    return ".".join((*parts, encoded(hmac.new(key.encode(), ".".join(parts).encode(), hashlib.sha256).digest())))


class Tls(ServerTest):
    def openssl(self, *arguments):
        subprocess.run(["openssl", *map(str, arguments)], cwd=self.folder, check=True, capture_output=True)

    def certify(self, name):
        """Makes a certificate for 127.0.0.1, signed by a separate authority."""
        ca, cert = f"{name}-ca", name
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        self.openssl("req", "-x509", *curve, "-keyout", f"{ca}.key", "-out", f"{ca}.pem", "-days", 1, "-subj", "/CN=authority",
                     "-addext", "keyUsage=critical,keyCertSign")
        self.openssl("req", *curve, "-keyout", f"{cert}.key", "-out", f"{cert}.csr", "-subj", "/CN=harpe")
        (self.folder / "extensions").write_text("subjectAltName=IP:127.0.0.1\n")
        self.openssl("x509", "-req", "-in", f"{cert}.csr", "-CA", f"{ca}.pem", "-CAkey", f"{ca}.key", "-CAcreateserial",
                     "-out", f"{cert}.pem", "-days", 1, "-extfile", "extensions")
        (self.folder / f"{cert}.key").chmod(0o600)

    def setUp(self):
        super().setUp()
        self.certify("server")
        key = self.folder / "signing-key"
        key.write_text(KEY)
        key.chmod(0o600)
        revoked = self.folder / "revoked"
        revoked.touch(mode=0o600)
        self.start("--tls-certificate", self.folder / "server.pem", "--tls-key", self.folder / "server.key",
                   "--signing-key-path", key, "--revoked-tokens", revoked)
        self.host, port = self.address.rsplit(":", 1)
        self.port = int(port)
        self.trusted = ssl.create_default_context(cafile=self.folder / "server-ca.pem")

    def token(self, scope, *more):
        issued = subprocess.run([self.harpe, "serve", "token", "issue", "--signing-key", self.folder / "signing-key",
                                 "--user", "trainer", "--scope", scope, *more], capture_output=True, text=True, check=True)
        return issued.stdout.strip()

    def client(self, token=None, authority="server-ca.pem", host=None):
        return harpe.Server(f"https://{host or self.host}:{self.port}", token=token, ca_file=self.folder / authority)

    def assert_refused(self, status, call, *arguments, **more):
        with self.assertRaises(harpe.NoPermissionError) as caught:
            call(*arguments, **more)
        self.assertEqual(caught.exception.status, status)

    def test_a_token_for_a_job_is_for_that_job(self):
        trainer = self.client(self.token("job-read,job-write", "--job", "a"))
        job = trainer.job("a")
        self.assertEqual(job.register(specification())["phase"], "registering")
        for stage in range(2):
            trainer.ask("POST", "/v1/jobs/a/ranks", {"stage": stage, "session": f"s{stage}", "clocks_mhz": CLOCKS})
        self.wait_for(lambda: job.status()["phase"] == "running")
        trainer.ask("POST", "/v1/jobs/a/reports", {"stage": 0, "session": "s0", "iteration": 0, "time_s": 0.3})
        self.assertEqual(job.set_objective(slowdown=0.1)["objective"], {"slowdown": 0.1})
        self.assert_refused(403, trainer.job("b").register, specification())

        everybody = self.client(self.token("job-read,job-write"))
        everybody.job("b").register(specification())
        self.assert_refused(403, trainer.job("b").status)
        self.assert_refused(403, trainer.metrics)
        self.assertEqual([one["id"] for one in trainer.jobs()], ["a"])
        self.assertEqual([one["id"] for one in everybody.jobs()], ["a", "b"])

        reader = self.client(self.token("job-read"))
        self.assertEqual(reader.job("b").status()["phase"], "registering")
        self.assert_refused(403, reader.job("b").set_objective, slowdown=0.1)
        self.assert_refused(403, reader.job("b").remove)

    def test_what_is_no_token_of_this_server_is_refused(self):
        claims = {"sub": "a", "scope": "job-read", "exp": time.time() + 60}
        issued = self.token("job-read")
        made = json.loads(base64.urlsafe_b64decode(issued.split(".")[1] + "=="))
        claims = {**made, "exp": int(time.time()) + 60}
        self.assertEqual(self.client(own_token(claims)).jobs(), [])  # the other tokens are rejected for their content
        head, body, signature = issued.split(".")
        for token in (None, "x", "a.b.c", head + "." + body + ".", head + "." + body + "." + signature[::-1],
                      own_token({**claims, "exp": int(time.time()) - 60}), own_token(claims, key=KEY[::-1]),
                      own_token(claims, algorithm="none"), own_token(claims, algorithm="RS256")):
            self.assert_refused(401, self.client(token).jobs)
        self.assertEqual(self.client().health()["status"], "ok")

    def replaced(self, name, text):
        """Replaces a file by renaming, like tools that rotate secrets; then sends SIGHUP to the server."""
        beside = self.folder / "replacement"
        beside.write_text(text)
        beside.chmod(0o600)
        beside.rename(self.folder / name)
        self.server.send_signal(signal.SIGHUP)

    def test_keys_and_certificates_follow_their_files(self):
        old, new = KEY, KEY[::-1]
        token = self.token("job-read")
        self.assertEqual(self.client(token).jobs(), [])
        with socket.create_connection((self.host, self.port), timeout=30) as plain, \
                self.trusted.wrap_socket(plain, server_hostname=self.host) as stays:
            before = stays.getpeercert(binary_form=True)
            self.replaced("signing-key", f"{new}\n{old}\n")
            self.certify("server")  # signed by another authority
            self.server.send_signal(signal.SIGHUP)
            self.trusted = ssl.create_default_context(cafile=self.folder / "server-ca.pem")
            self.wait_for(lambda: self.certificate() not in (None, before))
            stays.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertTrue(stays.recv(4096).startswith(b"HTTP/1.1 200 "))
        second = self.client(self.token("job-read"))
        self.wait_for(lambda: self.accepts(second))
        first = self.client(token)
        self.assertEqual(first.jobs(), [])
        self.replaced("signing-key", new)
        self.wait_for(lambda: not self.accepts(first))
        self.assertEqual(second.jobs(), [])
        self.replaced("signing-key", "short")
        self.wait_for(lambda: "at least 32 bytes" in (self.folder / "log").read_text())
        self.assertEqual(second.jobs(), [])

    def certificate(self):
        try:
            with socket.create_connection((self.host, self.port), timeout=30) as plain, \
                    self.trusted.wrap_socket(plain, server_hostname=self.host) as connection:
                return connection.getpeercert(binary_form=True)
        except ssl.SSLCertVerificationError:
            return None

    @staticmethod
    def accepts(client):
        try:
            client.jobs()
            return True
        except harpe.NoPermissionError:
            return False

    def test_a_revoked_token_is_refused(self):
        issued = json.loads(subprocess.run(
            [self.harpe, "serve", "token", "issue", "--signing-key", self.folder / "signing-key", "--user", "trainer",
             "--scope", "job-read", "--json"], capture_output=True, text=True, check=True).stdout)
        one, other = self.client(issued["token"]), self.client(self.token("job-read"))
        self.assertTrue(self.accepts(one) and self.accepts(other))
        self.replaced("revoked", f"# lost\nid {issued['id']}\n")
        self.wait_for(lambda: not self.accepts(one))
        self.assertTrue(self.accepts(other))

    def test_who_is_not_trusted_is_not_told_a_token(self):
        self.certify("other")
        token = self.token("job-read")
        with self.assertRaises(harpe.UnavailableError):
            self.client(token, authority="other-ca.pem").jobs()
        with self.assertRaises(harpe.UnavailableError):
            self.client(token, host="localhost").jobs()  # not a name in the certificate

    def test_what_is_no_tls_or_an_old_one_ends_alone(self):
        stays = self.connect()
        with socket.create_connection((self.host, self.port), timeout=30) as plain:
            plain.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" + b"x" * 1000)
            received = b""
            try:
                while more := plain.recv(4096):
                    received += more
            except ConnectionResetError:
                pass
            self.assertNotIn(b"HTTP", received)
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings(action="ignore"):
            old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        with socket.create_connection((self.host, self.port), timeout=30) as connection:
            with self.assertRaises((ssl.SSLError, ConnectionResetError)):
                old.wrap_socket(connection)
        stays.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertTrue(stays.recv(4096).startswith(b"HTTP/1.1 200"))
        self.assertIn(stays.version(), ("TLSv1.2", "TLSv1.3"))

    def connect(self):
        connection = socket.create_connection((self.host, self.port), timeout=60)
        secure = self.trusted.wrap_socket(connection, server_hostname=self.host)
        self.addCleanup(secure.close)
        return secure

    def test_silence_has_a_pulse(self):
        token = self.token("job-read,job-write", "--job", "a")
        job = self.client(token).job("a")
        job.register(specification())
        stream = self.connect()
        stream.sendall(f"GET /v1/jobs/a/events?data=0&stage=0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        received, told_at = b"", None
        while b": hb\n\n" not in received:
            more = stream.recv(4096)
            self.assertTrue(more, received)
            received += more
            if b": hb" not in more:
                told_at = time.monotonic()
        self.assertIn(b"text/event-stream", received)
        self.assertIn(b"event: phase", received)
        waited = time.monotonic() - told_at
        self.assertGreater(waited, HEARTBEAT_S - 1)
        self.assertLess(waited, HEARTBEAT_S + 3)
        # The stream continues to send events.
        job.remove()
        while b"deleted" not in received:
            more = stream.recv(4096)
            self.assertTrue(more, received)
            received += more


if __name__ == "__main__":
    if shutil.which("openssl") is None:
        print("openssl is missing")
        sys.exit(77)
    server_process.run(sys.argv[1])
