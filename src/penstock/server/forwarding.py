"""What only the active controller decides: passed on to it, and refused in its own words.

On a controller's listener the node itself is asked, and says so if another one decides. On all
other listeners the request looks for the controller, and times out if there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.model.errors import ErrorCode
from penstock.raft.driver import NotLeader

if TYPE_CHECKING:
    from penstock.server.broker import Broker
    from penstock.server.call import Call


async def forward(broker: Broker, call: Call, request: Any) -> Any:
    """The controller's answer, or Kafka's error in the shape of one."""
    controller = broker.controller_at(call.listener_name)
    leave = call.mutations = broker.quotas.mutations(call)
    try:
        answer = await controller.handle(request.API_KEY, request, version=call.version, call=call)
    except NotLeader:
        if call.enveloped:
            raise  # the envelope is refused, not what lies in it
        from penstock.server.refusals import refusal  # most nodes never need it

        away = controller is not broker.controller
        error = ErrorCode.NOT_CONTROLLER if away else ErrorCode.REQUEST_TIMED_OUT
        return refusal(request, error, call.version)
    if leave is not None:
        answer.throttle_time_ms = max(answer.throttle_time_ms, leave.wait_ms)
    # Told by the controller, here or elsewhere; who asked it through a broker waits there.
    if getattr(answer, "throttle_time_ms", 0) > 0 and not call.enveloped:
        call.connection.mute(answer.throttle_time_ms / 1000)
    return answer


def forward_to_quorum(broker: Broker, call: Call, request: Any) -> Any:
    """The answer of the quorum's leader to a change of its voters."""
    quorum = broker.quorum
    if quorum.leads:
        return quorum.answer(request)
    if call.enveloped:
        raise NotLeader("another node leads the quorum")
    near = broker.controller_at(call.listener_name) is not broker.controller
    return quorum.answer(request) if near else forward(broker, call, request)
