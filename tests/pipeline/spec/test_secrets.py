"""What is secret shows nowhere."""

from __future__ import annotations

import pytest

from tests.pipeline.spec.files import FULL, MINIMAL, problems, read

SECRET = "hunter2-and-more"
ENVIRONMENT = {"SECRET": SECRET}


def test_secrets_do_not_show_in_a_printed_pipeline() -> None:
    text = FULL.replace("pepper", SECRET).replace("hunter2", SECRET)
    pipeline = read(
        text.replace("security.protocol: SSL", f"sasl.jaas.config: {SECRET}").replace(
            "spark.ui.enabled: false", f"spark.hadoop.fs.s3a.secret.key: {SECRET}"
        )
    )
    assert pipeline.kafka["sasl.jaas.config"] == SECRET
    assert SECRET not in repr(pipeline)
    assert SECRET not in str(pipeline)


@pytest.mark.parametrize(
    "wrong",
    [
        "name: ${SECRET}//",
        "trigger: ${SECRET}",
        "on_error: ${SECRET}",
        "on_error: {attempts: '${SECRET}'}",
        "kafka: ${SECRET}",
        "kafka: {a: ['${SECRET}']}",
        "steps: [{mask: {a: '${SECRET}'}}]",
        "steps: [{filter: a, from: '${SECRET}'}]",
        "steps: [{filter: a, as: '${SECRET}'}]",
        "sinks: {s: {jdbc: '${SECRET}', table: t}}",
        "sinks: {s: {jdbc: 'jdbc:postgresql://u:${SECRET}@h/d', table: t}}",
        "sinks: {s: {jdbc: 'jdbc:postgresql://h/d?password=${SECRET}', table: t}}",
        "sinks: {s: {jdbc: 'jdbc:x', table: t, password: {a: '${SECRET}'}}}",
        "sources: {s: {topic: '${SECRET} x'}}",
        "sources: {s: {topic: t, from: '${SECRET}'}}",
        "sources: {s: {files: f, batch_bytes_max: '${SECRET}', growing: '${SECRET}'}}",
    ],
)
def test_what_variables_stand_for_does_not_show_in_messages(wrong: str) -> None:
    key = wrong.partition(":")[0]
    kept = [block for block in MINIMAL.split("\n") if block]
    text = "\n".join(kept)
    if key == "name":
        text = text.replace("name: orders", wrong)
    elif key in ("sources", "sinks"):
        other = "sinks: {a: {console: 1}}" if key == "sources" else "sources: {a: {topic: t}}"
        text = f"name: orders\n{other}\n{wrong}"
    else:
        text = f"{text}\n{wrong}"
    found = problems(text, ENVIRONMENT)
    assert found
    assert all(SECRET not in str(each) for each in found)


def test_a_password_in_an_address_is_refused_without_repeating_it() -> None:
    (problem,) = problems(
        """\
        name: orders
        sources: {a: {topic: t}}
        sinks: {s: {jdbc: 'jdbc:postgresql://h/d?user=u&password=hunter2', table: t}}
        """
    )
    assert "hunter2" not in str(problem)
    assert "password: ${NAME}" in problem.advice
