"""Each command that talks to a cluster takes the same options, and says whether it changes it."""

from __future__ import annotations

from penstock.cli.reference import commands

LOOKS = {
    "acl list",
    "cluster describe",
    "cluster quorum",
    "config describe",
    "consume",
    "delayed list",
    "dlq list",
    "dlq show",
    "group describe",
    "group lag",
    "group list",
    "quota list",
    "share describe",
    "share list",
    "token list",
    "topic describe",
    "topic list",
    "txn describe",
    "txn hanging",
    "txn list",
    "user list",
}
CHANGES = {
    "acl add",
    "acl remove",
    "cluster add-node",
    "cluster drain",
    "cluster rebalance",
    "cluster remove-node",
    "config set",
    "config unset",
    "delayed cancel",
    "dlq purge",
    "dlq redrive",
    "group delete",
    "group reset",
    "produce",
    "quota remove",
    "quota set",
    "share reset",
    "token create",
    "token expire",
    "token renew",
    "topic alter",
    "topic create",
    "topic delete",
    "txn abort",
    "user create",
    "user delete",
    "user password",
}


def test_commands_that_change_a_cluster_are_guarded_and_no_others() -> None:
    found = {
        path.partition(" ")[2]: command
        for path, command in commands()
        if any("--profile" in parameter.opts for parameter in command.params)
    }
    assert set(found) == LOOKS | CHANGES
    assert {path for path, command in found.items() if command.callback.changes} == CHANGES


def test_every_command_with_a_cluster_takes_its_security_from_the_same_options() -> None:
    for path, command in commands():
        options = {name for parameter in command.params for name in parameter.opts}
        if "--bootstrap" in options and not path.startswith("penstock profile"):
            assert {"--profile", "--command-config", "-X"} <= options, path
