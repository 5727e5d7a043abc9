from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli import profile_file
from penstock.cli.failure import USAGE, Failure
from penstock.cli.profile_file import Profile, Profiles, load_profiles, save_profiles
from penstock.cli.secure_access import Access, Given, access_of
from tests.unit.cli.runner import Penstock

DEFAULT = "localhost:9092"
PROD = Profile("prod", "prod:9092", True, settings={"security.protocol": "SSL"})


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def saved(*profiles: Profile, current: str = "") -> None:
    save_profiles(Profiles(current, {each.name: each for each in profiles}))


def access(
    bootstrap: Given | None = None,
    profile: Given | None = None,
    command_config: Given | None = None,
    **pairs: str,
) -> Access:
    settings = {key.replace("_", "."): value for key, value in pairs.items()}
    return access_of(bootstrap, profile, command_config, settings, DEFAULT)


# -- the file -------------------------------------------------------------------------------------


def test_without_a_file_there_are_no_profiles() -> None:
    assert load_profiles() == Profiles()


def test_only_its_owner_can_read_the_file() -> None:
    saved(PROD, current="prod")
    path = profile_file.profiles_path()
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700
    assert load_profiles() == Profiles("prod", {"prod": PROD})


def test_a_file_that_others_can_read_is_refused() -> None:
    saved(PROD)
    os.chmod(profile_file.profiles_path(), 0o640)
    with pytest.raises(Failure) as failed:
        load_profiles()
    assert "mode 0640" in failed.value.problem
    assert failed.value.hint.startswith("chmod 600")


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.dictionaries(text.filter(bool), text, max_size=4), text)
def test_whatever_is_saved_is_read_again(settings: dict[str, str], bootstrap: str) -> None:
    profile = Profile("p.1_x-y", bootstrap, True, "/a b", settings)
    saved(profile)
    assert load_profiles().get("p.1_x-y") == profile


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("current = 7", "current is no str"),
        ("[profiles.a]\nreadonly = 'yes'", "profiles.a.readonly is no bool"),
        ("[profiles.a]\nboostrap = 'x'", "profiles.a.boostrap means nothing"),
        ("[profiles.a.settings]\n'sasl.password' = 12345", "profiles.a.settings.sasl.password"),
        ("[profiles", "Expected"),
        ("profiles = 1", "profiles is no dict"),
    ],
)
def test_a_file_that_makes_no_sense_is_told_of_without_its_secrets(
    content: str, problem: str
) -> None:
    saved()
    Path(profile_file.profiles_path()).write_text(content)
    with pytest.raises(Failure) as failed:
        load_profiles()
    assert problem in failed.value.problem
    assert "12345" not in failed.value.problem
    assert failed.value.status == USAGE


# -- which cluster, and as whom -------------------------------------------------------------------


def test_where_nothing_is_said_it_is_this_machine() -> None:
    assert access() == Access(DEFAULT, {})


def test_the_profile_in_use_counts_where_nothing_else_names_a_cluster() -> None:
    saved(PROD, current="prod")
    assert access() == Access("prod:9092", {"security.protocol": "SSL"}, "prod")
    # Its credentials are for its cluster, and for no other that somebody names by address alone.
    assert access(Given("other:9092")) == Access("other:9092", {})
    assert access(Given("other:9092", by_environment=True)) == Access("other:9092", {})


def test_a_profile_that_is_named_gives_security_and_its_guard_even_with_another_address() -> None:
    saved(PROD)
    found = access(Given("other:9092"), Given("prod"))
    assert found == Access("other:9092", {"security.protocol": "SSL"}, "prod")


def test_the_command_line_goes_before_the_environment() -> None:
    saved(PROD)
    env = Given("env:9092", by_environment=True)
    assert access(env, Given("prod")).bootstrap == "prod:9092"
    assert access(env, Given("prod", by_environment=True)).bootstrap == "env:9092"
    assert access(env, bootstrap_servers="x:1").bootstrap == "x:1"


def test_settings_add_up_and_the_last_wins(home: Path) -> None:
    file = home / "client.properties"
    file.write_text(
        "bootstrap.servers=file:9092\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nacks=all\n"
    )
    saved(PROD)
    found = access(None, Given("prod"), Given(str(file)), sasl_mechanism="SCRAM-SHA-512")
    assert found.bootstrap == "file:9092"
    assert found.settings == {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}


def test_a_profile_may_leave_everything_to_a_file(home: Path) -> None:
    file = home / "client.properties"
    file.write_text("bootstrap.servers=file:9092\nsecurity.protocol=SSL\n")
    saved(Profile("p", command_config=str(file)), current="p")
    assert access() == Access("file:9092", {"security.protocol": "SSL"})
    assert access(Given("e:1", by_environment=True), Given("p")).bootstrap == "file:9092"


def test_secrets_are_taken_from_where_they_are(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "secret").write_text("from a file\n")
    monkeypatch.setenv("SECRET", "from the environment")
    settings = {
        "sasl.password": "env:SECRET",
        "ssl.key.password": f"file:{home}/secret",
        "sasl.username": "env:SECRET",  # no secret, and so what it says
    }
    saved(Profile("p", "p:1", settings=settings), current="p")
    assert access().settings == {
        "sasl.password": "from the environment",
        "ssl.key.password": "from a file",
        "sasl.username": "env:SECRET",
    }
    monkeypatch.delenv("SECRET")
    with pytest.raises(Failure, match="environment variable SECRET, which is not set"):
        access()


def test_a_profile_that_is_not_there_is_told_of_with_those_that_are() -> None:
    saved(PROD)
    with pytest.raises(Failure) as failed:
        access(profile=Given("dev"))
    assert failed.value.problem == "there is no profile dev"
    assert "prod" in failed.value.hint


# -- the commands ---------------------------------------------------------------------------------


def test_profiles_are_added_shown_used_and_removed(penstock: Penstock, home: Path) -> None:
    ran = penstock(
        *("profile", "add", "prod", "-b", "prod:9092", "--readonly", "--use"),
        *("-X", "security.protocol=SASL_SSL", "-X", "sasl.password=do not show"),
    )
    assert (ran.returncode, ran.stderr) == (0, "added profile prod, which is in use\n")
    shown = penstock.out("profile", "show", "prod")
    assert "********" in shown and "do not show" not in shown
    assert "yes" in penstock.out("profile", "list")
    again = penstock("profile", "add", "prod", "-b", "x:1")
    assert again.returncode == USAGE and "--force" in again.stderr
    penstock.out("profile", "use", "--none")
    assert load_profiles().current == ""
    penstock.out("profile", "remove", "prod")
    assert load_profiles() == Profiles()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["p"], "a profile needs an address"),
        (["a/b", "-b", "x:1"], "cannot name a profile"),
        (["p", "-b", "x:port"], "is no port"),
        (["p", "-b", "x:1", "-X", "acks=all"], "acks says nothing of address or security"),
        (["p", "--command-config", "/no/such"], "/no/such"),
    ],
)
def test_profiles_that_could_never_work_are_refused(
    penstock: Penstock, words: list[str], problem: str
) -> None:
    ran = penstock("profile", "add", *words)
    assert ran.returncode == USAGE
    assert problem in ran.stderr
    assert load_profiles() == Profiles()


def test_a_readonly_profile_refuses_changes_before_anybody_is_asked(penstock: Penstock) -> None:
    saved(Profile("p", "localhost:1", readonly=True), current="p")
    ran = penstock("topic", "delete", "orders", "--yes")
    assert ran.returncode == USAGE
    assert "profile p is readonly" in ran.stderr
    # What only looks is let through, and finds nobody there.
    assert "cannot reach a broker" in penstock("topic", "list").stderr
    assert "cannot reach a broker" in penstock("acl", "remove", "--all", "--dry-run").stderr
