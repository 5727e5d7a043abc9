"""What must never happen. A peer's mistake is a value; our own stops the shard it is in."""


class InvariantViolated(AssertionError):
    """Penstock contradicted itself. Nothing may be acknowledged on top of this."""


def invariant(holds: bool, what: str) -> None:
    """Stop here unless `holds`; `what` says in words what was found instead."""
    if not holds:
        raise InvariantViolated(what)
