"""A token for OAUTHBEARER: from a file, or from an endpoint that gives one for a secret."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.cli.failure import USAGE, Failure

ENDPOINT = "sasl.oauthbearer.token.endpoint.url"


def bearer_token(pairs: Mapping[str, str]) -> str:
    """The token that settings lead to."""
    from penstock.app.sasl_oauth import file_token, granted_token
    from penstock.security.own_login import NotBelieved
    from penstock.security.retrieval import RetrievalFailed

    url = pairs.get(ENDPOINT)
    if not url:
        raise Failure("OAUTHBEARER needs a token", f"say {ENDPOINT}", USAGE)
    try:
        if url.startswith("file:"):
            return file_token(url)
        client = pairs.get("sasl.oauthbearer.client.id", "")
        secret = pairs.get("sasl.oauthbearer.client.secret", "")
        return granted_token(url, client, secret, pairs.get("sasl.oauthbearer.scope"))
    except (NotBelieved, RetrievalFailed, ValueError) as problem:
        raise Failure(f"{ENDPOINT}: {problem}") from None
