"""What mpiexec tells an interconnect manager (`--fabric`), and whom it believes; run by security.py.

The manager is a small server here, with certificates that `openssl` makes: right ones, and ones that are wrong in one way each.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import pathlib
import shutil
import socketserver
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Iterator

from startup_job import Cases, Done, Skip, check, mpiexec

TOKEN = "a-token-that-nobody-may-see"


class Manager:
    """Says that it has made routes, and notes the tokens that it is told."""

    def __init__(self, context: ssl.SSLContext | None = None, path: str = "", host: str = "127.0.0.1") -> None:
        self.asked: list[str] = []
        manager = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                manager.asked.append(f"{self.command} {self.headers.get('Authorization', 'no token')}")
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                body = json.dumps({"pairs": 2}).encode()
                self.send_response(201)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                self.close_connection = True

            do_POST = do_DELETE = answer

            def log_message(self, *_: object) -> None:
                pass

            def address_string(self) -> str:
                return "caller"

        class Unix(socketserver.ThreadingUnixStreamServer):
            pass

        self.server: socketserver.BaseServer
        if path:
            self.server = Unix(path, Handler)
        else:
            tcp = http.server.ThreadingHTTPServer((host, 0), Handler)
            self.port = tcp.server_port
            if context:
                tcp.socket = context.wrap_socket(tcp.socket, server_side=True, do_handshake_on_connect=False)
            self.server = tcp
        self.server.handle_error = lambda *_: None  # type: ignore[method-assign]  # Callers who don't believe us hang up.
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self) -> Manager:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def openssl(here: pathlib.Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=here, check=True, capture_output=True)


def certificate(here: pathlib.Path, name: str, host: str, days: int = 2) -> ssl.SSLContext:
    """A certificate for `host`, signed by the authority `ca`."""
    openssl(here, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", "/CN=x")
    (here / f"{name}.ext").write_text(f"subjectAltName={host}\n")
    openssl(here, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", str(days), "-extfile", f"{name}.ext", "-out", f"{name}.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(here / f"{name}.pem", here / f"{name}.key")
    return context


@contextlib.contextmanager
def place() -> Iterator[pathlib.Path]:
    """A directory with an authority, another one, and a token."""
    if not shutil.which("openssl"):
        raise Skip("certificates need openssl")
    with tempfile.TemporaryDirectory() as name:
        here = pathlib.Path(name)
        for authority in ("ca", "other"):
            openssl(here, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{authority}.key",
                    "-out", f"{authority}.pem", "-subj", f"/CN={authority}", "-days", "3")
        (here / "token").write_text(TOKEN)
        yield here


def job(here: pathlib.Path, url: str, authority: str = "", plain_token: str = "") -> Done:
    """A job that has a token; it believes those of the file `authority`, or whom the system does."""
    done = mpiexec("-verbose", "--fabric", url, "-n", "1", "true", FERRULE_FABRIC_TOKEN_FILE=str(here / "token"),
                   FERRULE_FABRIC_TLS_CA=str(here / authority) if authority else "", FERRULE_FABRIC_PLAIN_TOKEN=plain_token)
    check(done.code == 0, f"a job must run whatever becomes of its routes: exit code {done.code}: {done.text[-600:]}")
    check(TOKEN not in done.text, "the token is printed")
    return done


def fabric() -> Cases:
    """Somebody who stands between mpiexec and the manager, or in its place."""
    def believed() -> None:
        with place() as here, Manager(certificate(here, "good", "DNS:localhost")) as manager:
            done = job(here, f"https://localhost:{manager.port}", "ca.pem")
            check("routes for 2 pairs" in done.text, done.text[-600:])
            check(manager.asked == [f"POST Bearer {TOKEN}", f"DELETE Bearer {TOKEN}"], str(manager.asked))
    yield "https with a right certificate", believed

    def refused(host: str, days: int, authority: str, why: str) -> None:
        with place() as here, Manager(certificate(here, "bad", host, days)) as manager:
            done = job(here, f"https://localhost:{manager.port}", authority)
            check("the manager's certificate is not believed" in done.text and why in done.text, done.text[-600:])
            check(not manager.asked, f"somebody who isn't believed is told: {manager.asked}")
    for what, host, days, authority, why in (("signed by somebody else", "DNS:localhost", 2, "other.pem", "UnknownIssuer"),
                                             ("not signed by whom the system trusts", "DNS:localhost", 2, "", "UnknownIssuer"),
                                             ("expired", "DNS:localhost", -1, "ca.pem", "Expired"),
                                             ("of another host", "DNS:elsewhere.example", 2, "ca.pem", "not valid for name")):
        yield f"a certificate {what}", lambda args=(host, days, authority, why): refused(*args)  # type: ignore[misc]

    def no_tls() -> None:
        with place() as here, Manager() as manager:
            done = job(here, f"https://localhost:{manager.port}", "ca.pem")
            check("doesn't speak TLS" in done.text and not manager.asked, f"{manager.asked}: {done.text[-600:]}")
    yield "a manager without TLS behind https", no_tls

    def in_clear() -> None:
        with place() as here, Manager() as manager:
            done = job(here, f"http://127.0.0.1:{manager.port}")
            check("the token would go to 127.0.0.1 in clear" in done.text and not manager.asked, f"{manager.asked}: {done.text[-600:]}")
            done = job(here, f"http://127.0.0.1:{manager.port}", plain_token="1")
            check("routes for 2 pairs" in done.text and len(manager.asked) == 2, f"{manager.asked}: {done.text[-600:]}")
            done = job(here, f"http://192.0.2.1:{manager.port}", plain_token="1")
            check("the token would go to 192.0.2.1 in clear: use https:// or a unix socket" in done.text, done.text[-600:])
    yield "a token over http", in_clear

    def over_unix_socket() -> None:
        with place() as here, Manager(path=str(here / "socket")) as manager:
            done = job(here, f"unix:{here / 'socket'}")
            check("routes for 2 pairs" in done.text and manager.asked[0] == f"POST Bearer {TOKEN}", f"{manager.asked}: {done.text[-600:]}")
    yield "a token over a unix socket", over_unix_socket

    def unreadable() -> None:
        with place() as here:
            for name, text in (("missing.pem", None), ("empty.pem", ""), ("rubbish.pem", "-----BEGIN CERTIFICATE-----\nrubbish\n-----END CERTIFICATE-----\n")):
                if text is not None:
                    (here / name).write_text(text)
                done = job(here, "https://localhost:9", name)
                check(f"cannot read certificates in {here / name}" in done.text, done.text[-600:])
    yield "a file without certificates", unreadable
