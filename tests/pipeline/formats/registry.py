"""A schema registry small enough for tests: it numbers schemas and gives them back."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class SmallRegistry:
    """What it holds; `url` is where it answers."""

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.url = ""

    def add(self, subject: str, text: str, kind: str = "AVRO") -> int:
        number = len(self.schemas) + 1
        self.schemas[number] = {"schema": text, "schemaType": kind}
        self.subjects.setdefault(subject, []).append(number)
        return number

    def answer(self, path: str) -> dict[str, Any] | None:
        self.asked.append(path)
        parts = path.strip("/").split("/")
        if parts[:2] == ["schemas", "ids"]:
            return self.schemas.get(int(parts[2]))
        numbers = self.subjects.get(parts[1])
        return {"id": numbers[-1], **self.schemas[numbers[-1]]} if numbers else None


@contextmanager
def small_registry() -> Iterator[SmallRegistry]:
    """A running one."""
    held = SmallRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(held.answer(self.path))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            subject = self.path.strip("/").split("/")[1]
            kind = body.get("schemaType", "AVRO")
            self._answer({"id": held.add(subject, body["schema"], kind)})

        def _answer(self, found: dict[str, Any] | None) -> None:
            content = json.dumps(found or {"error_code": 40403, "message": "not found"}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing: tests have output enough."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    held.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield held
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
