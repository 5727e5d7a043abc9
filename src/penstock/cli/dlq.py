"""`penstock dlq`: list, show, redrive and purge dead letters."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.confirm import confirm
from penstock.cli.failure import Failure, say
from penstock.cli.options import (
    BOOTSTRAP_DEFAULT,
    WAIT_DEFAULT,
    Bootstrap,
    DryRun,
    Output,
    Settings,
    Wait,
    Yes,
    new_app,
)
from penstock.cli.output import Shape, Table, answer

if TYPE_CHECKING:
    from penstock.cli.dlq_redrive import Outcome

dlq = new_app("List, show, redrive and purge dead letters.")

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The dead-letter topic.")]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="Given up since, such as 2h or 2026-11-15T09:30."),
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Given up before that time.")
]
Reason = Annotated[
    str | None,
    typer.Option("--reason", metavar="REGEX", help="Found in the reason or the message."),
]
Key = Annotated[str | None, typer.Option("--key", metavar="TEXT", help="With exactly this key.")]
Source = Annotated[
    str | None, typer.Option("--source", metavar="TOPIC", help="That came from this topic.")
]
Group = Annotated[
    str | None, typer.Option("--group", "-g", metavar="GROUP", help="Given up by this group.")
]
At = Annotated[
    list[str] | None,
    typer.Option("--at", metavar="P:OFFSET", help="This one letter; repeatable."),
]


@dlq.command("list")
def list_letters(
    pattern: Annotated[
        str | None,
        typer.Argument(metavar="TOPIC", help="Only this topic, or names such as 'dlq.shop*'."),
    ] = None,
    since: Since = None,
    until: Until = None,
    reason: Reason = None,
    key: Key = None,
    source: Source = None,
    group: Group = None,
    read_max: Annotated[
        int,
        typer.Option("--read", min=1, metavar="N", help="Read at most so many letters of a topic."),
    ] = 100_000,
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Count dead letters by topic, group, source and reason.

    Dead-letter topics are those that have errors.deadletterqueue.group.enable set, and those that
    are named dlq.SOMETHING or SOMETHING.dlq. WAITING are those that were not sent back yet. Where
    there are very many letters, the newest are counted.
    """
    from penstock.cli import dlq_memory, dlq_show, dlq_topics
    from penstock.cli.dlq_choice import choice_of

    choice = choice_of(
        since=since, until=until, reason=reason, key=key, source=source, group=group, at=None,
        now_ms=_now_ms(),
    )  # fmt: skip
    access = dlq_topics.Access(bootstrap, settings, wait)
    found = []
    with access.cluster() as cluster:
        for topic in dlq_topics.topics_of(cluster, pattern):
            partitions = len(dlq_topics.partitions_of(cluster, topic))
            sent = dlq_memory.redriven_if_allowed(cluster, topic)
            found += dlq_show.count(access, topic, partitions, choice, sent, read_max)
    columns = ("topic", "group", "source", "reason", "letters", "waiting", "oldest", "newest")
    answer(found, [Table(columns, [[one[column] for column in columns] for one in found])], output)


@dlq.command()
def show(
    topic: Topic,
    since: Since = None,
    until: Until = None,
    reason: Reason = None,
    key: Key = None,
    source: Source = None,
    group: Group = None,
    at: At = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=1, help="At most so many.")
    ] = 100,
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Show dead letters: whose they were, where they came from, what went wrong.

    The table has a line for each; -o json has their values and headers too.
    """
    from penstock.cli import dlq_memory, dlq_show, dlq_topics
    from penstock.cli.dlq_choice import choice_of

    choice = choice_of(
        since=since, until=until, reason=reason, key=key, source=source, group=group, at=at,
        now_ms=_now_ms(),
    )  # fmt: skip
    access = dlq_topics.Access(bootstrap, settings, wait)
    with access.cluster() as cluster:
        dlq_topics.partitions_of(cluster, topic)
        sent = dlq_memory.redriven_if_allowed(cluster, topic)
    found = []
    with dlq_topics.letters(access, topic, dlq_topics.start_of(choice)) as batches:
        for batch in batches:
            found += [letter for letter in batch if choice.takes(letter)]
            if len(found) > limit:
                say(f"the first {limit:,} are shown; --limit N shows more")
                break
    del found[limit:]
    shown = [
        (letter, None if sent is None else dlq_memory.was_sent(letter, sent)) for letter in found
    ]
    answer([dlq_show.document(*one) for one in shown], [dlq_show.table(shown)], output)


@dlq.command(changes=True)
def redrive(
    topic: Topic,
    since: Since = None,
    until: Until = None,
    reason: Reason = None,
    key: Key = None,
    source: Source = None,
    group: Group = None,
    at: At = None,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="TOPIC",
            show_default="the topic that each came from",
            help="Where all of them go.",
        ),
    ] = "",
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=0, help="At most so many; 0 is all.")
    ] = 0,
    dry_run: DryRun = False,
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Send dead letters back to the topics that they came from, each of them once.

    A record goes back with its key, its value and its own headers, to the partition that it was in;
    penstock-redrive-count says how often. What was sent is remembered in the group
    penstock.dlq.TOPIC:redrive, in the same transaction: letters that were left out wait for another
    time, and those that were sent are not sent again, also if this command is killed halfway.
    Letters of one and the same record bring it back once, unless --at names them. All groups that
    read the topic see it.
    """
    from penstock.cli.dlq_choice import choice_of
    from penstock.cli.dlq_redrive import Redrive, Wish
    from penstock.cli.dlq_topics import Access

    choice = choice_of(
        since=since, until=until, reason=reason, key=key, source=source, group=group, at=at,
        now_ms=_now_ms(),
    )  # fmt: skip
    access = Access(bootstrap, settings, wait)
    outcome = Redrive(access, topic, Wish(choice, to, limit), dry_run=dry_run).run()
    answer(_document(topic, outcome, dry_run), _tables(topic, outcome, dry_run), output)
    if outcome.gone:
        raise Failure(
            f"{len(outcome.gone)} records are no longer at their source, the first at "
            f"{outcome.gone[0].source}, and their letters have no copy of them",
            "set errors.deadletterqueue.copy.record.enable=true for the group",
        )


@dlq.command(changes=True)
def purge(
    topic: Topic,
    since: Since = None,
    until: Until = None,
    reason: Reason = None,
    key: Key = None,
    source: Source = None,
    group: Group = None,
    sent_only: Annotated[
        bool, typer.Option("--sent", help="Only letters that were sent back.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Delete dead letters. There is no way back.

    A log loses records from its beginning only. So a choice that would leave a letter before one
    that goes is refused; --until and --sent seldom are.
    """
    from penstock.cli import dlq_memory, dlq_purge, dlq_topics
    from penstock.cli.dlq_choice import choice_of
    from penstock.cli.positions import Kind, Position

    choice = choice_of(
        since=since, until=until, reason=reason, key=key, source=source, group=group, at=None,
        now_ms=_now_ms(),
    )  # fmt: skip
    access = dlq_topics.Access(bootstrap, settings, wait)
    with access.cluster() as cluster:
        dlq_topics.partitions_of(cluster, topic)
        sent = dlq_memory.redriven(cluster, topic) if sent_only else {}
    with dlq_topics.letters(access, topic, Position(Kind.START)) as batches:
        made = dlq_purge.plan(batches, choice, sent_only=sent_only, sent=sent)
    total = sum(made.counts.values())
    if not dry_run and total:
        if not yes:
            confirm(f"{total:,} letters of {topic}", "with all that they hold")
        dlq_purge.purge(access, topic, made.points)
    rows = [[topic, each, made.counts[each], made.points[each]] for each in sorted(made.points)]
    columns = ("topic", "partition", "letters", "start")
    document = [dict(zip(columns, row, strict=True)) for row in rows]
    answer(document, [Table(columns, rows)], output)
    would = "could be" if dry_run else "were"
    say(f"{total:,} letter{'s' * (total != 1)} of {topic} {would} deleted")


def _now_ms() -> int:
    return round(time.time() * 1000)


def _document(topic: str, outcome: Outcome, dry_run: bool) -> dict[str, object]:
    return {
        "topic": topic,
        "dry_run": dry_run,
        "sent": dict(outcome.sent),
        "twins": outcome.twins,
        "left": dict(outcome.left),
        "gone": [str(letter.source) for letter in outcome.gone],
    }


def _tables(topic: str, outcome: Outcome, dry_run: bool) -> list[Table]:
    verb = "would be sent" if dry_run else "sent"
    sent = list(outcome.sent.items()) or [("", 0)]
    tables = [Table(("to", verb), sent, f"Dead letters of {topic}")]
    if outcome.left:
        left = outcome.left.most_common(20)
        tables.append(Table(("reason", "letters"), left, "Left for another time"))
    return tables
