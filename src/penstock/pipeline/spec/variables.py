"""Values that come from the environment, or from files that hold secrets.

`${NAME}` is a variable, `${NAME:-default}` one that may be unset or empty, `${file:/path}` what a
file holds, without the white space around it. `$${` is a plain `${`. What is put in is text and
stays text: it is not looked at again, neither for variables nor as YAML.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from penstock.pipeline.problem import Place, Problem

_REFERENCE = re.compile(r"\$\$\{|\$\{([^{}]*)\}|\$\{")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SECRET_BYTES_MAX = 1 << 16


class Variables:
    """What references in a file stand for."""

    def __init__(self, environment: Mapping[str, str], folder: str) -> None:
        self._environment = environment
        self._folder = folder

    def expand(self, text: str, place: Place) -> str:
        """The text with everything put in; a `Problem` where that cannot be."""
        if "${" not in text:
            return text
        return _REFERENCE.sub(lambda found: self._meaning(found, place), text)

    def _meaning(self, found: re.Match[str], place: Place) -> str:
        if found[0] == "$${":
            return "${"
        reference = found[1] or ""
        if reference.startswith("file:"):
            return self._secret(reference.removeprefix("file:"), place)
        name, has_default, default = reference.partition(":-")
        if not _NAME.fullmatch(name):
            raise Problem(
                f"{found[0]!r} is no variable",
                "Write ${NAME}, ${NAME:-default} or ${file:/path}, or $${ for a plain ${.",
                place,
            )
        value = self._environment.get(name)
        if has_default:
            return value or default
        if value is None:
            raise Problem(
                f"the variable {name} is not set",
                f"Set it in the environment, or give a default: ${{{name}:-...}}.",
                place,
            )
        return value

    def _secret(self, path: str, place: Place) -> str:
        try:
            with open(os.path.join(self._folder, path), "rb") as file:
                content = file.read(SECRET_BYTES_MAX + 1)
        except (OSError, ValueError) as mistake:
            why = getattr(mistake, "strerror", None) or "this is no path"
            raise Problem(
                f"{path!r} cannot be read: {why}", "${file:...} wants a readable file.", place
            ) from None
        if len(content) > SECRET_BYTES_MAX:
            raise Problem(
                f"{path!r} has more than {SECRET_BYTES_MAX >> 10} KiB",
                "${file:...} is for a secret, such as a password.",
                place,
            )
        try:
            return content.decode().strip()
        except UnicodeDecodeError:
            raise Problem(f"{path!r} is not text in UTF-8", "Save it as UTF-8.", place) from None
