"""The reference page and the facts behind it are what their generators write."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from codegen.configuration import import_facts, page
from tests.oracle import apache


def test_the_reference_page_is_what_the_generator_writes() -> None:
    with open(page.TARGET, encoding="utf-8") as file:
        assert file.read() == page.page(), "run: python -m codegen.configuration.page"


@pytest.mark.java
def test_the_facts_are_those_of_apache_kafka() -> None:
    facts = import_facts.read_facts(str(apache.install() / "libs"))
    with open(import_facts.TARGET, encoding="utf-8") as file:
        assert file.read() == import_facts.module_of(facts)


def test_descriptions_are_not_loaded_until_somebody_reads_one() -> None:
    program = (
        "import sys; from penstock.model.config import NodeConfig; "
        "print([m for m in ('difflib', 'tomllib', 'penstock.model.config.descriptions') "
        "if m in sys.modules])"
    )
    source = os.path.join(os.path.dirname(page.HERE), "..", "src")
    environment = {**os.environ, "PYTHONPATH": os.path.abspath(source)}
    command = [sys.executable, "-c", program]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "[]"
