"""Where a new password comes from: a file, standard input, a terminal without echo, or chance."""

from __future__ import annotations

import sys

from penstock.cli.failure import USAGE, Failure
from penstock.cli.secure_secrets import SECRET_BYTES_MAX, read_secret

GENERATED_BYTES = 24
"""Of chance in a password that is made here: 192 bits, which nobody guesses."""

PASSWORD_LENGTH_MAX = 1024


def new_password(user: str, *, file: str | None, generate: bool) -> str:
    """A password, read from where it was said to be, asked for, or made."""
    if file is not None and generate:
        raise Failure("--password-file and --generate", "choose one of them", USAGE)
    if generate:
        return generated()
    if file is not None and file != "-":
        return _checked(read_secret(file, "--password-file"), file)
    if file == "-" or not sys.stdin.isatty():
        return _checked(_from_standard_input(), "standard input")
    return _asked(user)


def generated() -> str:
    """A password that nobody guesses, in letters that survive every shell and file."""
    import secrets

    return secrets.token_urlsafe(GENERATED_BYTES)


def _from_standard_input() -> str:
    line = sys.stdin.buffer.readline(SECRET_BYTES_MAX)
    try:
        return line.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise Failure("the password is not text in UTF-8", "", USAGE) from None


def _asked(user: str) -> str:
    import getpass

    first = getpass.getpass(f"New password for {user}: ", sys.stderr)
    if getpass.getpass("Once more: ", sys.stderr) != first:
        raise Failure("the two passwords differ", "nothing was changed", USAGE)
    return _checked(first, "what was typed")


def _checked(password: str, where: str) -> str:
    if not password:
        raise Failure(
            f"{where} holds no password", "pass --password-file FILE, or --generate one", USAGE
        )
    if len(password) > PASSWORD_LENGTH_MAX:
        raise Failure(f"the password is longer than {PASSWORD_LENGTH_MAX} characters", "", USAGE)
    return password
