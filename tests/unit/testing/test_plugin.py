"""The plugin as a user's project sees it: tests in a directory of their own, run by pytest."""

from __future__ import annotations

import pytest

from tests.unit.testing.stubs import PYTHONPATH

pytest_plugins = ["pytester"]

CONFTEST = """
import pytest
from tests.unit.testing.stubs import PretendBroker
import penstock.testing.broker

penstock.testing.broker.Broker = PretendBroker
"""


PLUGINS = ("-p", "penstock.testing.plugin", "-p", "xdist")


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project whose broker only pretends: the plugin's own work is what is tested here."""
    monkeypatch.setenv("PYTHONPATH", PYTHONPATH)
    # The plugin is named on the command line, whether or not Penstock is installed here.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest(CONFTEST)
    return pytester


def run(project: pytest.Pytester, *options: str) -> pytest.RunResult:
    return project.runpytest_subprocess(*PLUGINS, *options)


def test_all_tests_of_a_run_share_one_broker(project: pytest.Pytester) -> None:
    project.makepyfile("""
        pids = set()

        def test_one(penstock_broker):
            pids.add(penstock_broker.pid)
            assert penstock_broker.bootstrap_servers == "127.0.0.1:12345"

        def test_two(penstock_broker):
            pids.add(penstock_broker.pid)
            assert len(pids) == 1
    """)
    run(project).assert_outcomes(passed=2)


def test_settings_come_from_pytests_configuration(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\npenstock_config =\n    num.partitions=3\n    log.retention.ms = 5\n")
    project.makepyfile("""
        def test_settings(penstock_broker):
            assert penstock_broker.config == {"num.partitions": "3", "log.retention.ms": "5"}
    """)
    run(project).assert_outcomes(passed=1)


def test_a_setting_without_a_value_is_told_of(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\npenstock_config = num.partitions\n")
    project.makepyfile("def test_settings(penstock_broker): pass")
    result = run(project)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*penstock_config: 'num.partitions' is not key=value*"])


def test_a_project_may_define_the_settings_as_a_fixture(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest

        @pytest.fixture(scope="session")
        def penstock_config():
            return {"num.partitions": "7"}

        def test_settings(penstock_broker):
            assert penstock_broker.config == {"num.partitions": "7"}
    """)
    run(project).assert_outcomes(passed=1)


def test_under_xdist_each_worker_has_a_broker_of_its_own(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import os, pathlib, pytest, time

        @pytest.mark.parametrize("number", range(6))
        def test_many(penstock_broker, number):
            worker = os.environ["PYTEST_XDIST_WORKER"]
            with open(f"{worker}.pids", "a") as pids:
                print(penstock_broker.pid, penstock_broker.data, file=pids)
            time.sleep(0.2)
    """)
    run(project, "-n", "2").assert_outcomes(passed=6)
    by_worker = [set(path.read_text().split("\n")) - {""} for path in project.path.glob("*.pids")]
    assert len(by_worker) == 2
    assert [len(brokers) for brokers in by_worker] == [1, 1]
    assert not by_worker[0] & by_worker[1]


def test_a_run_that_asks_for_no_broker_starts_none(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import sys

        def test_nothing():
            assert "confluent_kafka" not in sys.modules
    """)
    run(project).assert_outcomes(passed=1)
