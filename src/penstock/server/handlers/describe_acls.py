"""DescribeAcls, versions 1 to 3: the entries that a filter means, resource by resource.

The node answers from its image: what was created a moment ago, through another node, may still be
on its way.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.controller.acls import unknown
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.describe_acls import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from penstock.security.acl_filters import AclFilter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.metadata.acls import Acl, AclsImage
    from penstock.protocol.generated.describe_acls import DescribeAclsRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call

SLICE = 5_000
"""Entries that are described before others get their turn."""


async def handle(
    broker: Broker,
    call: Call,  # noqa: ARG001
    request: DescribeAclsRequest,
) -> DescribeAclsResponse:
    """Answer from the image."""
    if broker.authorizer is None:
        error = ErrorCode.SECURITY_DISABLED
        return DescribeAclsResponse(error_code=error, error_message=error.message)
    wanted = AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    refusal = unknown(wanted)
    if refusal is not None:
        return DescribeAclsResponse(error_code=refusal.error, error_message=refusal.message)
    resources = await _described(broker.image.acls, wanted)
    return DescribeAclsResponse(error_message=None, resources=resources)


async def _described(acls: AclsImage, wanted: AclFilter) -> list[DescribeAclsResource]:
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    exact = wanted.exact
    candidates: Iterable[Acl] = acls.ids
    if exact is not None:
        candidates = (exact,) if exact in acls.ids else ()
    matches = wanted.matcher()
    for count, acl in enumerate(candidates):
        if count % SLICE == SLICE - 1:
            await asyncio.sleep(0)
        if matches(acl):
            _add(resources, acl)
    return list(resources.values())


def _add(resources: dict[tuple[int, str, int], DescribeAclsResource], acl: Acl) -> None:
    key = (acl.resource_type, acl.resource_name, acl.pattern_type)
    resource = resources.get(key)
    if resource is None:
        resource = resources[key] = DescribeAclsResource(
            resource_type=acl.resource_type,
            resource_name=acl.resource_name,
            pattern_type=acl.pattern_type,
        )
    resource.acls.append(
        AclDescription(
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
    )
