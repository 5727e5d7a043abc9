from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.testing import BrokerFailed
from tests.unit.testing.stubs import PYTHONPATH, PretendBroker


def eventually(holds: Callable[[], bool], seconds_max: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds_max
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_with_block_gives_a_broker_and_takes_it_away_with_its_data() -> None:
    with PretendBroker() as broker:
        pid, data = broker.pid, broker.data
        assert broker.bootstrap_servers == "127.0.0.1:12345"
        assert broker.running
        assert os.path.isdir(data)
    assert not broker.running
    assert not alive(pid)
    assert not os.path.exists(data)


async def test_async_with_does_the_same() -> None:
    async with PretendBroker() as broker:
        pid, data = broker.pid, broker.data
        assert alive(pid)
    assert not alive(pid)
    assert not os.path.exists(data)


def test_settings_reach_the_node() -> None:
    with PretendBroker({"num.partitions": "3"}) as broker:
        assert "('num.partitions', '3')" in broker.log


def test_named_data_is_kept(tmp_path: Path) -> None:
    with PretendBroker(data=tmp_path) as broker:
        assert broker.data == str(tmp_path)
    assert tmp_path.exists()


def test_a_failed_start_shows_what_the_broker_said() -> None:
    broker = PretendBroker({"mode": "fail"})
    with pytest.raises(BrokerFailed, match=r"ended before it was ready\n(.*\n)*there is no room"):
        broker.__enter__()
    assert not broker.running


def test_a_start_that_takes_too_long_is_given_up() -> None:
    with (
        pytest.raises(BrokerFailed, match=r"took 0\.5 s and more before it was ready"),
        PretendBroker({"mode": "silent"}, start_seconds_max=0.5),
    ):
        pass


def test_a_killed_broker_starts_again_on_its_port_with_its_data() -> None:
    with PretendBroker() as broker:
        first = broker.pid
        address, data = broker.bootstrap_servers, broker.data
        broker.kill()
        assert not alive(first)
        broker.start()
        assert broker.pid != first
        assert (broker.bootstrap_servers, broker.data) == (address, data)


def test_a_restart_stops_in_an_orderly_way_and_keeps_the_port() -> None:
    with PretendBroker() as broker:
        address = broker.bootstrap_servers
        broker.restart()
        assert broker.bootstrap_servers == address
        assert "stopped\n" in broker.log


def test_a_crash_that_nobody_noticed_fails_the_test_at_the_end() -> None:
    with (
        pytest.raises(BrokerFailed, match="had ended by itself, with status 7"),
        PretendBroker({"mode": "crash"}) as broker,
    ):
        assert eventually(lambda: not broker.running)


def test_a_failing_test_keeps_its_own_error_and_gets_a_note_of_the_brokers() -> None:
    with pytest.raises(ZeroDivisionError) as caught, PretendBroker({"mode": "crash"}) as broker:
        assert eventually(lambda: not broker.running)
        print(1 / 0)
    assert "had ended by itself" in caught.value.__notes__[0]


def test_ctrl_c_in_the_terminal_does_not_reach_the_broker() -> None:
    with PretendBroker() as broker:
        assert os.getpgid(broker.pid) != os.getpgid(0)


def test_a_broker_that_prints_much_never_blocks() -> None:
    with PretendBroker({"mode": "chatty"}) as broker:
        assert eventually(lambda: "said it all" in broker.log)


def test_a_second_start_is_refused() -> None:
    with PretendBroker() as broker, pytest.raises(BrokerFailed, match="running already"):
        broker.start()


def test_what_is_not_running_has_no_pid_and_no_address() -> None:
    broker = PretendBroker()
    with pytest.raises(BrokerFailed, match="not running"):
        broker.stop()
    with pytest.raises(BrokerFailed, match="no port yet"):
        print(broker.bootstrap_servers)


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGTERM])
def test_the_broker_and_its_data_go_when_the_test_process_dies(death: signal.Signals) -> None:
    script = textwrap.dedent("""
        import time
        from tests.unit.testing.stubs import PYTHONPATH, PretendBroker
        broker = PretendBroker()
        broker.start()
        print(broker.pid, broker.data, flush=True)
        time.sleep(60)
    """)
    owner = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
    )
    assert owner.stdout is not None
    pid, data = owner.stdout.readline().split()
    assert alive(int(pid))
    owner.send_signal(death)
    owner.wait(10)
    owner.stdout.close()
    assert eventually(lambda: not alive(int(pid)))
    assert eventually(lambda: not os.path.exists(data))


def test_importing_the_package_is_cheap_and_brings_no_pytest() -> None:
    script = (
        "import sys, penstock.testing; print('pytest' in sys.modules, 'subprocess' in sys.modules)"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == ["False", "False"]
