"""What configuration says about OAUTHBEARER: whose tokens count, and where this node has one."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, cast
from urllib.parse import quote_plus, urlencode

from penstock.app.problems import CannotStart
from penstock.security.oauth import OAuthMechanism, Rules
from penstock.security.oauth_keys import Keys
from penstock.security.own_login import BearerCredentials, NotBelieved
from penstock.security.retrieval import RetrievalFailed, check_url, retrieve

if TYPE_CHECKING:
    from penstock.model.config.node import NodeConfig
    from penstock.security.jaas import LoginModule

TOKEN_BYTES_MAX = 64 * 1024
TOKEN_SECONDS_MAX = 10.0

_JWKS = "sasl.oauthbearer.jwks.endpoint.url"
_ISSUER = "sasl.oauthbearer.expected.issuer"
_AUDIENCE = "sasl.oauthbearer.expected.audience"
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"


# -- tokens of clients ----------------------------------------------------------------------------


def oauth_mechanism(
    config: NodeConfig, listener: str, module: LoginModule | None
) -> tuple[OAuthMechanism, Keys]:
    """How a listener judges tokens; CannotStart unless it can tell real ones from forged ones."""
    options = {} if module is None else module.options
    if any(option.startswith("unsecured") for option in options):
        raise CannotStart(
            f"the JAAS configuration of OAUTHBEARER at listener {listener} has options of "
            f"unsecured tokens, which anybody can make: take them out, and set {_JWKS}"
        )
    url = cast("str | None", config.for_listener(listener, _JWKS))
    issuer = cast("str | None", config.for_listener(listener, _ISSUER))
    audience = cast("tuple[str, ...]", config.for_listener(listener, _AUDIENCE) or ())
    wanted = ((_JWKS, url), (_ISSUER, issuer), (_AUDIENCE, audience))
    missing = [key for key, value in wanted if not value]
    if missing or not url or not issuer:
        raise CannotStart(
            f"listener {listener} takes OAUTHBEARER, and without {', '.join(missing)} it would "
            "take tokens that were not made for it: set all of "
            f"{_JWKS}, {_ISSUER} and {_AUDIENCE}"
        )
    rules = Rules(
        issuer,
        audience,
        _int(config, listener, "sasl.oauthbearer.clock.skew.seconds") * 1000,
        _str(config, listener, "sasl.oauthbearer.sub.claim.name"),
        _str(config, listener, "sasl.oauthbearer.scope.claim.name"),
    )
    keys = Keys(url, _int(config, listener, "sasl.oauthbearer.jwks.endpoint.refresh.ms"))
    try:
        check_url(url)
        if url.startswith("file:"):
            keys.load()  # a file that is not there now will not come by itself
    except (RetrievalFailed, ValueError) as problem:
        raise CannotStart(f"{_JWKS} of listener {listener}: {problem}") from problem
    return OAuthMechanism(rules, keys), keys


# -- this node's own ------------------------------------------------------------------------------


def own_token(
    config: NodeConfig, listener: str, module: LoginModule | None
) -> BearerCredentials | None:
    """Where this node gets a token to show to others: a file, or an endpoint that gives one for
    the client's credentials. None if configuration has neither."""
    url = cast("str | None", config.for_listener(listener, _ENDPOINT))
    if not url:
        return None
    try:
        check_url(url)
    except ValueError as problem:
        raise CannotStart(f"{_ENDPOINT} of listener {listener}: {problem}") from problem
    if url.startswith("file:"):
        return BearerCredentials(lambda: file_token(url))
    options = {} if module is None else module.options
    client = options.get("clientId") or _optional(config, listener, _CLIENT_ID)
    secret = options.get("clientSecret") or _optional(config, listener, _CLIENT_SECRET)
    scope = options.get("scope") or _optional(config, listener, "sasl.oauthbearer.scope")
    if not client or not secret:
        raise CannotStart(
            f"{_ENDPOINT} of listener {listener} is set, and {_CLIENT_ID} or {_CLIENT_SECRET} is "
            "not: this node cannot get a token to show to others"
        )
    return BearerCredentials(lambda: granted_token(url, client, secret, scope))


def file_token(url: str) -> str:
    """The token that lies in a file, which somebody else replaces in time."""
    return _text(retrieve(url, TOKEN_BYTES_MAX, TOKEN_SECONDS_MAX))


def granted_token(url: str, client: str, secret: str, scope: str | None) -> str:
    """A token for the client's credentials (RFC 6749, section 4.4). It blocks: for a worker."""
    both = f"{quote_plus(client)}:{quote_plus(secret)}".encode()
    form = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
    try:
        answer = retrieve(
            url,
            TOKEN_BYTES_MAX,
            TOKEN_SECONDS_MAX,
            urlencode(form).encode(),
            {
                "Accept": "application/json",
                "Authorization": f"Basic {base64.b64encode(both).decode()}",
                "Content-Type": "application/x-www-form-urlencoded",
            },
        )
        token = json.loads(answer)["access_token"]
    except RetrievalFailed as problem:
        raise NotBelieved(f"there is no token to show: {problem}") from problem
    except (ValueError, TypeError, KeyError, RecursionError):
        raise NotBelieved("the endpoint of tokens does not answer with one") from None
    return _text(str(token).encode())


def _text(token: bytes) -> str:
    try:
        text = token.decode("ascii").strip()
    except UnicodeDecodeError:
        text = ""
    if not text or any(each <= " " for each in text):
        raise NotBelieved("what should be a token of this node is none")
    return text


def _int(config: NodeConfig, listener: str, key: str) -> int:
    return cast(int, config.for_listener(listener, key))


def _str(config: NodeConfig, listener: str, key: str) -> str:
    return cast(str, config.for_listener(listener, key))


def _optional(config: NodeConfig, listener: str, key: str) -> str | None:
    return cast("str | None", config.for_listener(listener, key))
