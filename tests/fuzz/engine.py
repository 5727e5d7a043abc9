"""One target under atheris, in a process of its own: `python -m tests.fuzz.engine TARGET ...`.

What follows the target goes to libFuzzer. Coverage is that of the package; the targets are not
worth exploring.
"""

from __future__ import annotations

import sys


def main() -> None:
    import atheris  # type: ignore[import-untyped]  # an extra: `fuzz`

    # What is imported here is instrumented, so nothing of the package may be imported before.
    with atheris.instrument_imports(include=["penstock"]):
        from tests.fuzz.targets import TARGETS

        target = TARGETS[sys.argv[1]]
        for data in target.seeds():  # imports what is imported lazily
            target.run(data)
    atheris.Setup([sys.argv[0], *sys.argv[2:]], target.examine)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
