"""What turns bytes into code, or trust into hope, is not used, or it says here where and why."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "penstock"
CLIENTS = ("pipeline", "cli", "testing", "gateway", "patterns")
"""Rooms that run what their own user gives them: steps in Python, commands."""

CALLS = {
    "eval", "exec", "compile", "__import__", "os.system", "os.popen", "pickle.load",
    "pickle.loads", "marshal.load", "marshal.loads", "shelve.open", "yaml.load", "yaml.unsafe_load",
    "tempfile.mktemp", "ssl._create_unverified_context", "hashlib.md5", "hashlib.sha1",
    "random.random", "random.randbytes", "random.choice",
}  # fmt: skip
NAMES = {"CERT_NONE", "TLSv1", "TLSv1_1", "PROTOCOL_SSLv3", "OP_NO_TLSv1_3"}

ALLOWED = {
    "security/tls.py: CERT_NONE": "what a listener without ssl.client.auth asks of its clients",
    "cli/wire_security.py: CERT_NONE": "librdkafka's enable.ssl.certificate.verification=false",
}
"""Where, and why."""


@functools.cache
def _files() -> list[tuple[str, ast.Module]]:
    """Those in which one of the words stands at all: the others need not be read."""
    words = {each.rpartition(".")[2] + "(" for each in CALLS} | NAMES | {"shell", "import_module"}
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        text = "" if "generated" in path.parts else path.read_text()
        if any(word in text for word in words):
            found.append((str(path.relative_to(PACKAGE)), ast.parse(text)))
    return found


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def test_nothing_evaluates_unpickles_or_trusts_blindly() -> None:
    found = set()
    for name, tree in _files():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _dotted(node.func) in CALLS:
                found.add(f"{name}: {_dotted(node.func)}")
            if isinstance(node, ast.Attribute) and node.attr in NAMES:
                found.add(f"{name}: {node.attr}")
            if isinstance(node, ast.keyword) and node.arg == "shell":
                found.add(f"{name}: shell=")
    assert found == set(ALLOWED)


def test_a_broker_imports_by_no_name_that_could_come_from_outside() -> None:
    """CVE-2025-27819 and its kin: every module that is imported by name is one of ours."""
    strange = []
    for name, tree in _files():
        if name.startswith(CLIENTS):
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or "import_module" not in _dotted(node.func):
                continue
            if not _begins_with_ours(node.args[0], tree):
                strange.append(f"{name}:{node.lineno}")
    assert strange == []


def _begins_with_ours(argument: ast.expr, tree: ast.Module) -> bool:
    """Whether a text begins with our own package, directly or by a name that is set so."""
    if isinstance(argument, ast.JoinedStr):
        first = argument.values[0]
        if isinstance(first, ast.FormattedValue):
            return _begins_with_ours(first.value, tree)
        return _begins_with_ours(first, tree)
    if isinstance(argument, ast.Constant):
        return str(argument.value).startswith("penstock.")
    if isinstance(argument, ast.Name):
        values = [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            and any(isinstance(it, ast.Name) and it.id == argument.id for it in node.targets)
        ]
        return bool(values) and all(_begins_with_ours(value, tree) for value in values)
    return False
