"""Kafka's client properties in librdkafka's words, which all commands understand.

Java's clients name a login module and keystores, librdkafka names a user and files: the same facts.
Both vocabularies are read, so that a file made for Kafka's tools serves here as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.cli.failure import USAGE, Failure

FILE_BYTES_MAX = 1 << 20

TAKEN = frozenset(
    {
        "bootstrap.servers",
        "client.id",
        "security.protocol",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "sasl.tokenauth",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.pem",
        "ssl.key.password",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.token.endpoint.url",
    }
)
"""What every command understands, in librdkafka's words. A client's other settings, which stand in
files for Kafka's tools as well, mean nothing here and are passed over."""

JAVAS = frozenset(
    {
        "sasl.jaas.config",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.certificates",
        "ssl.keystore.type",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
    }
)
"""What only Java's clients know, and is translated."""

TOKEN_LOGIN = "sasl.tokenauth"
"""Our own word, after Java's option: the user is a delegation token's id, the password its HMAC."""


def check_words(keys: Iterable[str], where: str) -> None:
    """`Failure` for settings that not every command understands."""
    unknown = sorted(set(keys) - TAKEN - JAVAS)
    if unknown:
        raise Failure(
            f"{where}: {unknown[0]} says nothing of address or security",
            f"there is {', '.join(sorted(TAKEN | JAVAS))}",
            USAGE,
        )


def read_properties(path: str) -> dict[str, str]:
    """The settings of a file of client properties, in librdkafka's words."""
    from penstock.model.config.problems import ConfigProblems
    from penstock.model.config.sources import read_entries

    try:
        entries = read_entries(path)
    except OSError as problem:
        raise Failure(f"{path}: {problem.strerror}", "", USAGE) from None
    except (ConfigProblems, UnicodeDecodeError) as problem:
        raise Failure(f"{path}: {problem}", "", USAGE) from None
    found = translated({entry.key: entry.text for entry in entries}, path)
    return {key: value for key, value in found.items() if key in TAKEN}


def translated(settings: Mapping[str, str], where: str) -> dict[str, str]:
    """Settings of either vocabulary in librdkafka's; `where` is told with what is wrong."""
    out = dict(settings)
    if (jaas := out.pop("sasl.jaas.config", None)) is not None:
        out |= {key: value for key, value in _login(jaas, where).items() if key not in settings}
    if out.get("ssl.endpoint.identification.algorithm") == "":
        out["ssl.endpoint.identification.algorithm"] = "none"  # Java leaves it empty to say so
    _trust(out, where)
    _own_keys(out, where)
    return out


def _login(jaas: str, where: str) -> dict[str, str]:
    """What a login module is told, in librdkafka's words."""
    from penstock.security import jaas as modules

    try:
        entries = modules.parse_jaas(jaas)
    except modules.JaasProblem as problem:
        raise Failure(f"{where}: sasl.jaas.config: {problem}", "", USAGE) from None
    name, options = entries[0]
    if name == modules.OAUTH_MODULE:
        words = {"clientId": "client.id", "clientSecret": "client.secret", "scope": "scope"}
        prefix = "sasl.oauthbearer."
        found = {prefix + ours: options[java] for java, ours in words.items() if java in options}
        return {prefix + "method": "oidc", **found} if found else {}
    found = {
        "sasl.username": options.get("username", ""),
        "sasl.password": options.get("password", ""),
    }
    if options.get("tokenauth", "").lower() == "true":
        found[TOKEN_LOGIN] = "true"
    return found


def _trust(out: dict[str, str], where: str) -> None:
    """The authorities that servers' certificates are checked against."""
    kind = out.pop("ssl.truststore.type", None)
    location = out.pop("ssl.truststore.location", None)
    password = out.pop("ssl.truststore.password", None)
    inline = out.pop("ssl.truststore.certificates", None)
    if inline:
        out["ssl.ca.pem"] = pem_lines(inline)
    elif location and _is_pem(location, where):
        out["ssl.ca.location"] = location
    elif location:
        from penstock.security.stores import Store, StoreError, read_trusted

        try:
            # librdkafka reads authorities from PEM alone.
            out["ssl.ca.pem"] = read_trusted(Store("truststore", kind, location, password))
        except StoreError as problem:
            raise Failure(f"{where}: {problem}", "", USAGE) from None


def _own_keys(out: dict[str, str], where: str) -> None:
    """The certificate that this client shows, and its key."""
    kind = out.pop("ssl.keystore.type", None)
    key = out.pop("ssl.keystore.key", None)
    chain = out.pop("ssl.keystore.certificate.chain", None)
    if key and chain:
        out["ssl.key.pem"] = pem_lines(key)
        out["ssl.certificate.pem"] = pem_lines(chain)
        return
    location = out.get("ssl.keystore.location")
    if location and _is_pem(location, where):
        del out["ssl.keystore.location"]
        out.pop("ssl.keystore.password", None)
        out["ssl.certificate.location"] = out["ssl.key.location"] = location
    elif location:
        from penstock.security.stores import Store, StoreError, read_keys

        passwords = out.get("ssl.keystore.password"), out.get("ssl.key.password")
        try:
            read_keys(Store("keystore", kind, location, *passwords))  # or it says what is wrong
        except StoreError as problem:
            raise Failure(f"{where}: {problem}", "", USAGE) from None


def pem_lines(text: str) -> str:
    r"""PEM that was squeezed into one line, with \n or blanks between its lines, as it belongs."""
    import re

    if "\n" in text or "\\n" in text:
        return text.replace("\\n", "\n").strip() + "\n"

    def block(match: re.Match[str]) -> str:
        body = "\n".join(match[2].split())
        return f"-----BEGIN {match[1]}-----\n{body}\n-----END {match[1]}-----\n"

    return re.sub(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----\s*", block, text.strip())


def _is_pem(path: str, where: str) -> bool:
    """Whether a store is PEM: by what it holds, which does not err."""
    try:
        with open(path, "rb") as file:
            return b"-----BEGIN " in file.read(FILE_BYTES_MAX)
    except OSError as problem:
        raise Failure(f"{where}: {path}: {problem.strerror}", "", USAGE) from None
