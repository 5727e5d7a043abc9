"""Brokers come, stay in touch and go: registration, heartbeats, fencing, removal."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from penstock.controller import leaders
from penstock.controller.decision import Context, Decision
from penstock.controller.directories import changes_in_heartbeat
from penstock.metadata.levels import (
    CONTROLLER_REGISTRATION_FROM,
    METADATA_VERSION,
    NO_LEVELS,
    LevelRange,
)
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.broker_heartbeat import BrokerHeartbeatResponse
from penstock.protocol.generated.broker_registration import BrokerRegistrationResponse
from penstock.protocol.generated.controller_registration import ControllerRegistrationResponse
from penstock.protocol.generated.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)
from penstock.protocol.generated.unregister_broker import UnregisterBrokerResponse

if TYPE_CHECKING:
    from penstock.metadata.cluster import BrokerImage
    from penstock.protocol.generated.broker_heartbeat import BrokerHeartbeatRequest
    from penstock.protocol.generated.broker_registration import BrokerRegistrationRequest
    from penstock.protocol.generated.controller_registration import ControllerRegistrationRequest
    from penstock.protocol.generated.unregister_broker import UnregisterBrokerRequest

FENCED, UNFENCED = 1, -1


def register_broker(context: Context, request: BrokerRegistrationRequest) -> Decision:
    """BrokerRegistration: a process takes a broker id, under a new epoch."""
    error = _unregistrable(context, request)
    if error is not None:
        return Decision([], BrokerRegistrationResponse(error_code=error))
    before = context.image.cluster.brokers.get(request.broker_id)
    record = _registration(request)
    records: list[Any] = []
    if before is not None and before.incarnation == request.incarnation_id:
        # The same process again: it only amends what it said about itself.
        record.broker_epoch = before.epoch
        record.fenced = before.fenced
        record.in_controlled_shutdown = before.shutting_down
    else:
        records += _after_stop(context, request, before)
        record.broker_epoch = context.next_offset
        context.sessions.restart(request.broker_id, context.now)
    records.append(record)
    return Decision(records, BrokerRegistrationResponse(broker_epoch=record.broker_epoch))


def _unregistrable(context: Context, request: BrokerRegistrationRequest) -> ErrorCode | None:
    brokers = context.image.cluster.brokers
    before = brokers.get(request.broker_id)
    if request.cluster_id != context.settings.cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if (
        before is not None
        and before.incarnation != request.incarnation_id
        and not before.fenced
        and context.sessions.alive(request.broker_id, context.now)
    ):
        return ErrorCode.DUPLICATE_BROKER_REGISTRATION
    if request.is_migrating_zk_broker:
        return ErrorCode.BROKER_ID_NOT_REGISTERED
    if not _directories_fit(context, request):
        return ErrorCode.INVALID_REGISTRATION
    spans = {
        f.name: LevelRange(f.min_supported_version, f.max_supported_version)
        for f in request.features
    }
    levels = context.image.features.levels
    if not all(span.holds(levels.get(name, 0)) for name, span in spans.items()):
        return ErrorCode.UNSUPPORTED_VERSION
    if METADATA_VERSION not in spans:
        return ErrorCode.INVALID_REGISTRATION
    if not all(spans.get(name, NO_LEVELS).holds(level) for name, level in levels.items()):
        return ErrorCode.UNSUPPORTED_VERSION
    return None


def _directories_fit(context: Context, request: BrokerRegistrationRequest) -> bool:
    """Each directory is named once, is real, and belongs to no other broker."""
    wanted = set(request.log_dirs)
    if not wanted or len(wanted) != len(request.log_dirs):
        return False
    # The first hundred ids are set aside for meanings such as "lost".
    if any(int.from_bytes(d, "big") < 100 for d in wanted):
        return False
    return not any(
        wanted & set(broker.directories)
        for broker in context.image.cluster.brokers.values()
        if broker.id != request.broker_id
    )


def _registration(request: BrokerRegistrationRequest) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        rack=request.rack,
        end_points=[
            BrokerEndpoint(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                security_protocol=listener.security_protocol,
            )
            for listener in request.listeners
        ],
        features=[
            BrokerFeature(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in request.features
        ],
        log_dirs=list(request.log_dirs),
    )


def _after_stop(
    context: Context, request: BrokerRegistrationRequest, before: BrokerImage | None
) -> list[Any]:
    """What the end of the last incarnation means for the partitions that it had.

    It noted its epoch after its last flush, and only then: a stop without that note may have lost
    what was acknowledged. Either way leaders change, so that the same epoch never leads twice.
    """
    clean = before is not None and request.previous_broker_epoch == before.epoch
    if clean or not context.image.features.elr_enabled:
        return list(leaders.after_leaving(context, request.broker_id))
    return list(leaders.after_unclean_stop(context, request.broker_id))


def register_controller(context: Context, request: ControllerRegistrationRequest) -> Decision:
    """ControllerRegistration: a voter says where it listens and what it supports."""
    if context.image.features.metadata_version < CONTROLLER_REGISTRATION_FROM:
        return Decision(
            [],
            ControllerRegistrationResponse(
                error_code=ErrorCode.UNSUPPORTED_VERSION,
                error_message="metadata.version is too old to register controllers.",
            ),
        )
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=request.zk_migration_ready,
        end_points=[
            ControllerEndpoint(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                security_protocol=listener.security_protocol,
            )
            for listener in request.listeners
        ],
        features=[
            ControllerFeature(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in request.features
        ],
    )
    return Decision([record], ControllerRegistrationResponse())


class Standing(Enum):
    """How a broker stands with the cluster."""

    FENCED = "takes no part"
    ACTIVE = "leads and follows"
    LEAVING = "hands its partitions over"
    GONE = "may stop now"


def heartbeat(context: Context, request: BrokerHeartbeatRequest) -> Decision:
    """BrokerHeartbeat: the broker is alive, and asks to join in or to leave."""
    if not context.speaks_for(request.broker_id, request.broker_epoch):
        return Decision([], BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    broker = context.image.cluster.brokers[request.broker_id]
    was = _standing(broker)
    session = context.sessions.touch(broker.id, context.now, request.current_metadata_offset)
    now = _next_standing(context, broker, request)
    records: list[Any] = []
    if now is not was:
        records += _transition(context, broker, now)
    if now is Standing.LEAVING and session.leaving_from is None:
        session.leaving_from = context.next_offset + len(records)
    records += changes_in_heartbeat(context, broker, request)
    response = BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= broker.epoch,
        is_fenced=now in (Standing.FENCED, Standing.GONE),
        should_shut_down=now is Standing.GONE,
    )
    return Decision(records, response, atomic=False)


def _standing(broker: BrokerImage) -> Standing:
    if broker.fenced:
        return Standing.FENCED
    return Standing.LEAVING if broker.shutting_down else Standing.ACTIVE


def _next_standing(
    context: Context, broker: BrokerImage, request: BrokerHeartbeatRequest
) -> Standing:
    was = _standing(broker)
    if was is Standing.FENCED:
        if request.want_shut_down:
            return Standing.GONE
        if broker.shutting_down:
            # It does not change its mind: this heartbeat is older than that, and came late. Who
            # led once more could not hand over, for nobody can join whom a leaving broker leads.
            return Standing.FENCED
        caught_up = request.current_metadata_offset >= broker.epoch
        return Standing.ACTIVE if caught_up and not request.want_fence else Standing.FENCED
    if was is Standing.ACTIVE:
        if request.want_fence:
            return Standing.GONE if request.want_shut_down else Standing.FENCED
        if request.want_shut_down:
            return Standing.LEAVING if leaders.leads_any(context, broker.id) else Standing.GONE
        return Standing.ACTIVE
    if leaders.leads_any(context, broker.id):
        return Standing.LEAVING
    # Others must know that they lead before this one stops, or clients would find nobody.
    others = [b.id for b in context.image.cluster.brokers.values() if b.active]
    seen = context.sessions.seen_by(others)
    session = context.sessions.touch(broker.id, context.now)
    if seen is None or session.leaving_from is None or session.leaving_from <= seen + 1:
        return Standing.GONE
    return Standing.LEAVING


def _transition(context: Context, broker: BrokerImage, to: Standing) -> list[Any]:
    if to is Standing.ACTIVE:
        change = _registration_change(broker, fenced=UNFENCED)
        return [change, *leaders.after_return(context, broker.id)]
    if to is Standing.LEAVING:
        change = _registration_change(broker, in_controlled_shutdown=1)
        return [change, *leaders.after_leaving(context, broker.id)]
    if broker.fenced:
        return []
    return fence(context, broker)


def fence(context: Context, broker: BrokerImage) -> list[Any]:
    """A broker that is not heard from, or wants out, leads and follows nothing."""
    changes: list[Any] = list(leaders.after_leaving(context, broker.id))
    return [*changes, _registration_change(broker, fenced=FENCED)]


def _registration_change(broker: BrokerImage, **fields: Any) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, **fields)


def unregister_broker(context: Context, request: UnregisterBrokerRequest) -> Decision:
    """UnregisterBroker: an operator says that a broker will not come back."""
    broker = context.image.cluster.brokers.get(request.broker_id)
    if broker is None:
        error = ErrorCode.BROKER_ID_NOT_REGISTERED
        message = f"Broker {request.broker_id} is not registered."
        return Decision([], UnregisterBrokerResponse(error_code=error, error_message=message))
    gone = (
        leaders.after_unclean_stop if context.image.features.elr_enabled else leaders.after_leaving
    )
    records: list[Any] = list(gone(context, broker.id))
    records.append(UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch))
    context.sessions.remove(broker.id)
    return Decision(records, UnregisterBrokerResponse())


def fence_stale(context: Context) -> Decision | None:
    """Fence one broker that has been silent too long, and answer which.

    One at a time: who takes over from the next one depends on what this one's going changed.
    """
    unfenced = [
        broker.id
        for broker in context.image.cluster.brokers.values()
        # The broker in this process is as alive as the controller that would fence it.
        if not broker.fenced and broker.id != context.settings.node_id
    ]
    for broker_id in context.sessions.stale(unfenced, context.now):
        broker = context.image.cluster.brokers[broker_id]
        return Decision(fence(context, broker), broker_id, atomic=False)
    return None
