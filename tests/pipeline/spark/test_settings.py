"""The settings of a session: Penstock's, the machine's and the user's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.pipeline.spark import settings
from penstock.pipeline.spark.settings import chosen_settings


@pytest.fixture(autouse=True)
def plain_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)


def chosen(
    master: str = "local[2]", user: dict[str, str] | None = None, needs: tuple[str, ...] = ()
) -> dict[str, str]:
    return chosen_settings(
        "orders",
        master,
        user or {},
        jars=[Path("/jars/a.jar"), Path("/jars/b.jar")],
        needs=frozenset(needs),
        java_options=["-Dx=1", '-Dy=a "b" \\c'],
    )


def test_one_machine_gets_as_many_partitions_as_it_has_cores_and_talks_to_itself() -> None:
    found = chosen()
    assert found["spark.sql.shuffle.partitions"] == "2"
    assert found["spark.driver.host"] == "127.0.0.1"
    assert re.fullmatch(r"\d+m", found["spark.driver.memory"])


@pytest.mark.parametrize(
    ("limit", "memory"),
    [(8 << 30, "2048m"), (512 << 20, "1024m"), (64 << 30, "4096m"), ("max", "4096m")],
)
def test_the_driver_gets_a_quarter_of_what_a_container_may_use_within_bounds(
    limit: object, memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sysconf", lambda name: {"SC_PAGE_SIZE": 4096}.get(name, 16 << 20))
    monkeypatch.setattr(settings, "CONTAINER_MEMORY", tmp_path / "memory.max")
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    assert chosen()["spark.driver.memory"] == memory


def test_a_cluster_keeps_its_own_sizes_and_addresses() -> None:
    found = chosen("spark://host:7077")
    assert not found.keys() & {
        "spark.sql.shuffle.partitions",
        "spark.driver.host",
        "spark.driver.memory",
    }


def test_the_user_wins() -> None:
    user = {"spark.ui.enabled": "true", "spark.driver.memory": "9g", "spark.app.name": "mine"}
    assert chosen(user=user).items() >= user.items()


def test_settings_that_hold_many_things_get_the_users_as_well() -> None:
    user = {
        "spark.jars": "/mine.jar",
        "spark.driver.extraJavaOptions": "-Dmine=1",
        "spark.sql.extensions": "org.example.Mine",
        "spark.redaction.regex": "mine",
    }
    found = chosen(user=user, needs=("iceberg",))
    assert found["spark.jars"] == "/jars/a.jar,/jars/b.jar,/mine.jar"
    assert found["spark.driver.extraJavaOptions"] == r'-Dx=1 "-Dy=a \"b\" \\c" -Dmine=1'
    assert found["spark.sql.extensions"].endswith("IcebergSparkSessionExtensions,org.example.Mine")
    for hidden in ("password", "mine"):
        assert re.search(found["spark.redaction.regex"], hidden)


def test_what_a_machine_has_settled_for_all_its_jobs_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# for everybody\nspark.sql.session.timeZone  Europe/Paris\nspark.ui.enabled=true\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    found = chosen()
    assert "spark.sql.session.timeZone" not in found
    assert "spark.ui.enabled" not in found
    assert found["spark.sql.shuffle.partitions"] == "2"
