"""ApiVersions, versions 0 to 4: what this node can be asked, and which features are on.

A version above ours is answered in version 0 with UNSUPPORTED_VERSION and the versions of
ApiVersions itself, so that the client can ask again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.metadata.levels import KRAFT_VERSION
from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import PENSTOCKS_OWN_FROM, ApiKey
from penstock.protocol.generated.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from penstock.protocol.registry import API
from penstock.server.apis import CONTROLLER_HANDLERS, HANDLERS

if TYPE_CHECKING:
    from penstock.protocol.generated.api_versions import ApiVersionsRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(broker: Broker, call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """The table of APIs that the listener serves, the same for every client."""
    if call.version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    image = broker.image
    controllers = call.listener_name in broker.config.controller_listener_names
    served = sorted(CONTROLLER_HANDLERS if controllers else HANDLERS)
    return ApiVersionsResponse(
        api_keys=[_entry(key) for key in served if key < PENSTOCKS_OWN_FROM],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in broker.supported_features.items()
            # Before version 4 a minimum of 0 could not be said, and such features were left out.
            if call.version >= 4 or low > 0
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in {
                **image.features.levels,
                # The quorum keeps its own version, in records of its own.
                KRAFT_VERSION: broker.quorum.kraft_version,
            }.items()
            if level > 0
        ],
    )


def unsupported(broker: Broker, call: Call) -> ApiVersionsResponse:  # noqa: ARG001
    """The answer in version 0 to a version that this node does not know."""
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_entry(int(ApiKey.API_VERSIONS))]
    )


def _entry(key: int) -> ApiVersion:
    versions = API[key].versions
    return ApiVersion(api_key=key, min_version=versions[0], max_version=versions[-1])
