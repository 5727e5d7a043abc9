"""Masters: which there are, and which answer."""

from __future__ import annotations

import socket

import pytest

from penstock.pipeline.problem import Problem
from penstock.pipeline.spark.master import check_master, local_cores
from penstock.testing.ports import free_ports


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local", 1), ("local[3]", 3), ("local[4,2]", 4), ("spark://h:1", None), ("yarn", None)],
)
def test_the_cores_of_a_master(master: str, cores: int | None) -> None:
    assert local_cores(master) == cores


@pytest.mark.parametrize("master", ["local[2]", "local[*]", "yarn", "k8s://https://host:6443"])
def test_what_spark_knows_is_let_pass(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize(
    "master",
    ["", "local[0]", "local[", "spark://host", "spark//host:1", "mesos://host:1", "host:1"],
)
def test_what_spark_does_not_know_is_refused_with_what_it_does(master: str) -> None:
    with pytest.raises(Problem, match="no master that Spark knows") as problem:
        check_master(master)
    assert "spark://HOST:PORT" in problem.value.advice


def test_a_standalone_master_that_does_not_listen_is_told_at_once() -> None:
    (port,) = free_ports(1)
    with pytest.raises(Problem, match=rf"no Spark master answers at 127\.0\.0\.1:{port}"):
        check_master(f"spark://127.0.0.1:{port}")


def test_one_master_of_several_is_enough() -> None:
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        check_master(f"spark://127.0.0.1:{port},127.0.0.1:{listening.getsockname()[1]}")
