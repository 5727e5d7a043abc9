"""Tokens and keys over HTTP: an issuer on this machine that answers well, badly, or slowly."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from penstock.app.sasl_oauth import granted_token
from penstock.security.own_login import NotBelieved
from penstock.security.retrieval import RetrievalFailed, retrieve


class Endpoint:
    """What an issuer answers, and what it was asked."""

    def __init__(self) -> None:
        self.status = 200
        self.body = b'{"access_token": "a.b.c"}'
        self.location = ""
        self.pause = 0.0
        self.asked: list[tuple[str, str, bytes]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                proof = self.headers.get("Authorization") or ""
                endpoint.asked.append((self.path, proof, self.rfile.read(size)))
                self.send_response(endpoint.status)
                if endpoint.location:
                    self.send_header("Location", endpoint.location)
                self.end_headers()
                with suppress(ConnectionError):  # of a client that has had enough
                    for at in range(0, len(endpoint.body), 1000):
                        self.wfile.write(endpoint.body[at : at + 1000])
                        self.wfile.flush()
                        time.sleep(endpoint.pause)

            do_GET = do_POST = answer

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/path?x=1"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.close()


def test_a_document_is_fetched(endpoint: Endpoint) -> None:
    endpoint.body = b"x" * 5000
    assert retrieve(endpoint.url, 5000, 5.0) == b"x" * 5000
    assert endpoint.asked == [("/path?x=1", "", b"")]


def test_one_that_is_too_long_or_too_slow_is_given_up(endpoint: Endpoint) -> None:
    endpoint.body = b"x" * 5001
    with pytest.raises(RetrievalFailed, match="more than 5000 bytes"):
        retrieve(endpoint.url, 5000, 5.0)
    endpoint.body, endpoint.pause = b"x" * 5000, 0.1
    with pytest.raises(RetrievalFailed, match="too long"):
        retrieve(endpoint.url, 5000, 0.2)


def test_a_redirection_is_no_answer(endpoint: Endpoint) -> None:
    endpoint.status, endpoint.location = 302, "http://169.254.169.254/"
    with pytest.raises(RetrievalFailed, match="status 302"):
        retrieve(endpoint.url, 5000, 5.0)


def test_nobody_there_is_told_in_words(endpoint: Endpoint) -> None:
    endpoint.close()
    with pytest.raises(RetrievalFailed, match="cannot be asked: ConnectionRefusedError"):
        retrieve(endpoint.url, 5000, 5.0)


def test_a_token_is_granted_for_the_clients_credentials(endpoint: Endpoint) -> None:
    assert granted_token(endpoint.url, "client", "s3:cret", "read write") == "a.b.c"
    ((_, proof, form),) = endpoint.asked
    assert proof == "Basic Y2xpZW50OnMzJTNBY3JldA=="
    assert form == b"grant_type=client_credentials&scope=read+write"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (401, b'{"error": "hunter2"}'),
        (200, b"hunter2"),
        (200, b"[]"),
        (200, b'{"token": "hunter2"}'),
        (200, b'{"access_token": ""}'),
        (200, b'{"access_token": "a b"}'),
        (200, b"[" * 50_000),
    ],
)
def test_no_token_is_told_in_words_and_nothing_is_repeated(
    endpoint: Endpoint, status: int, body: bytes
) -> None:
    endpoint.status, endpoint.body = status, body
    with pytest.raises(NotBelieved) as caught:
        granted_token(endpoint.url, "client", "hunter2", None)
    assert "hunter2" not in str(caught.value)
