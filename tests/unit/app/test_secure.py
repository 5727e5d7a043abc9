"""What `penstock up --secure` makes beside the data, and finds again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.app.company import members
from penstock.app.secure import ADMIN, CannotSecure, Files, Secured, is_secured
from penstock.app.settings import settings_for_up
from penstock.model.config.node import NodeConfig
from penstock.platform.disk import Disk
from penstock.raft.format import read_bootstrap
from penstock.security.scram_keys import BY_NAME, credential, salted
from penstock.security.stores import Store, read_keys


def test_secrets_are_their_owners_alone_and_clients_may_read_the_authority(tmp_path: Path) -> None:
    secured = Secured(str(tmp_path / "data"), "localhost")
    secured.tell("localhost:9092", with_secrets=False)
    modes = {os.path.basename(path): os.stat(path).st_mode & 0o777 for path in secured.files}
    assert modes.pop("authority.pem") & 0o444
    assert set(modes) == {"authority-key.pem", "node.pem", "admin.password", "admin.properties"}
    assert set(modes.values()) == {0o600}


def test_a_second_start_finds_what_the_first_one_made(tmp_path: Path) -> None:
    first = Secured(str(tmp_path), "localhost")
    before = [Path(path).read_bytes() for path in first.files[:4]]
    second = Secured(str(tmp_path), "localhost")
    assert (first.is_new, second.is_new) == (True, False)
    assert [Path(path).read_bytes() for path in second.files[:4]] == before


def test_a_node_under_another_name_gets_a_certificate_for_it_as_well(tmp_path: Path) -> None:
    def hosts(secured: Secured) -> frozenset[str]:
        return read_keys(Store("keystore", location=secured.files.node)).hosts

    assert {"localhost", "127.0.0.1"} <= hosts(Secured(str(tmp_path), "0.0.0.0"))
    assert "0.0.0.0" not in hosts(Secured(str(tmp_path), "0.0.0.0"))
    authority = Path(Files.of(str(tmp_path)).authority).read_bytes()
    assert {"localhost", "kafka.example"} <= hosts(Secured(str(tmp_path), "kafka.example"))
    assert {"localhost", "kafka.example"} <= hosts(Secured(str(tmp_path), "localhost"))
    assert Path(Files.of(str(tmp_path)).authority).read_bytes() == authority


def test_data_of_an_open_node_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    with pytest.raises(CannotSecure, match="without --secure"):
        Secured(str(tmp_path), "localhost")
    assert not is_secured(str(tmp_path))


def test_a_broken_keystore_is_told_of_with_the_way_out(tmp_path: Path) -> None:
    secured = Secured(str(tmp_path), "localhost")
    Path(secured.files.node).write_text("nonsense")
    with pytest.raises(CannotSecure, match="remove the file, and it is made anew"):
        Secured(str(tmp_path), "localhost")


def test_the_metadata_begins_with_the_admin_and_the_password_of_the_file(tmp_path: Path) -> None:
    secured = Secured(str(tmp_path), "localhost")
    settings = settings_for_up(str(tmp_path), "localhost", 0, secured.settings(), "SASL_SSL")
    config = NodeConfig.of(settings)
    secured.format(config)
    secured.format(config)  # once is enough
    records = read_bootstrap(Disk(), str(tmp_path))
    (admin,) = [each for each in records if type(each).__name__ == "UserScramCredentialRecord"]
    password = Path(secured.files.password).read_text()
    assert (admin.name, len(password)) == (ADMIN, 32)
    mechanism = BY_NAME["SCRAM-SHA-512"]
    stretched = salted(mechanism, password, admin.salt, admin.iterations)
    made = credential(mechanism, admin.salt, admin.iterations, stretched)
    assert (made.stored_key, made.server_key) == (admin.stored_key, admin.server_key)


def test_without_a_password_there_is_no_admin_with_an_empty_one(tmp_path: Path) -> None:
    secured = Secured(str(tmp_path), "localhost")
    os.unlink(secured.files.password)
    settings = settings_for_up(str(tmp_path), "localhost", 0, secured.settings(), "SASL_SSL")
    with pytest.raises(CannotSecure, match="nobody could log in"):
        secured.format(NodeConfig.of(settings))
    assert "admin.password" in secured.tell("localhost:9092", with_secrets=True)


def test_the_password_is_shown_once_and_only_where_it_may_be(tmp_path: Path) -> None:
    secured = Secured(str(tmp_path), "localhost")
    password = Path(secured.files.password).read_text()
    assert password not in secured.tell("localhost:9092", with_secrets=False)
    assert password in secured.tell("localhost:9092", with_secrets=True)
    assert password in Path(secured.files.properties).read_text()
    assert password not in Secured(str(tmp_path), "localhost").tell("x:1", with_secrets=True)


def test_a_later_start_changes_nothing_but_the_address_in_the_admins_file(tmp_path: Path) -> None:
    secured = Secured(str(tmp_path), "localhost")
    secured.tell("localhost:9092", with_secrets=False)
    file = Path(secured.files.properties)
    password = Path(secured.files.password).read_text()
    file.write_text(file.read_text().replace(password, "another") + "acks=all\n")
    Secured(str(tmp_path), "localhost").tell("localhost:9192", with_secrets=False)
    text = file.read_text()
    assert text.startswith("bootstrap.servers=localhost:9192\n")
    assert 'password="another"' in text and text.endswith("acks=all\n")
    assert file.stat().st_mode & 0o777 == 0o600


def test_several_brokers_trust_each_other_by_certificate(tmp_path: Path) -> None:
    secured = Secured(str(tmp_path), "localhost")
    made = members(3, str(tmp_path), "localhost", 9092, {}, secured)
    password = Path(secured.files.password).read_text()
    for member in made:
        config = NodeConfig.of(member.settings)
        assert config.security_protocols["BROKER"] == "SSL"
        assert config.inter_broker_listener_name == "BROKER"
        assert config.for_listener("BROKER", "ssl.client.auth") == "required"
        assert config.for_listener("CONTROLLER", "ssl.client.auth") == "required"
        # These become words of a command line, which everybody on the machine can read.
        assert password not in " ".join(member.settings.values())
    assert [each.port for each in NodeConfig.of(made[2].settings).listeners] == [9094, 19094, 29094]
