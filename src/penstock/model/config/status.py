"""Which keys this Penstock honours. This is the one place to edit when that changes.

honoured: read, and acted upon. planned: accepted and checked, without effect until a later release.
Every other key is ignored: it is about something that Penstock does not have, such as a
JVM's thread pools, and it is accepted so that a server.properties need not be edited.
"""

from __future__ import annotations

HONOURED = "honoured"
PLANNED = "planned"
IGNORED = "ignored"
# Every listener may have keys of its own, and so these count for all and for each.
_TLS = frozenset(
    {
        "ssl.allow.dn.changes",
        "ssl.allow.san.changes",
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.principal.mapping.rules",
        "ssl.protocol",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)

_HONOURED_BROKER = (
    frozenset(
        {
            "add.partitions.to.txn.retry.backoff.max.ms",
            "add.partitions.to.txn.retry.backoff.ms",
            "advertised.listeners",
            "allow.everyone.if.no.acl.found",
            "authorizer.class.name",
            "auto.create.topics.enable",
            "auto.leader.rebalance.enable",
            "broker.heartbeat.interval.ms",
            "broker.id",
            "broker.rack",
            "broker.session.timeout.ms",
            "compression.gzip.level",
            "compression.lz4.level",
            "compression.type",
            "compression.zstd.level",
            "connection.failed.authentication.delay.ms",
            "connections.max.idle.ms",
            "connections.max.reauth.ms",
            "controlled.shutdown.enable",
            "controller.listener.names",
            "controller.quorum.auto.join.enable",
            "controller.quorum.bootstrap.servers",
            "controller.quorum.election.backoff.max.ms",
            "controller.quorum.election.timeout.ms",
            "controller.quorum.fetch.timeout.ms",
            "controller.quorum.request.timeout.ms",
            "controller.quorum.retry.backoff.ms",
            "controller.quorum.voters",
            "controller.quota.window.num",
            "controller.quota.window.size.seconds",
            "default.replication.factor",
            "delegation.token.expiry.check.interval.ms",
            "delegation.token.expiry.time.ms",
            "delegation.token.max.lifetime.ms",
            "delegation.token.secret.key",
            "delete.topic.enable",
            "fetch.max.bytes",
            "follower.replication.throttled.rate",
            "group.consumer.assignment.interval.ms",
            "group.consumer.assignors",
            "group.consumer.heartbeat.interval.ms",
            "group.consumer.max.size",
            "group.consumer.migration.policy",
            "group.consumer.regex.refresh.interval.ms",
            "group.consumer.session.timeout.ms",
            "group.coordinator.rebalance.protocols",
            "group.initial.rebalance.delay.ms",
            "group.max.session.timeout.ms",
            "group.max.size",
            "group.min.session.timeout.ms",
            "group.share.delivery.count.limit",
            "group.share.max.delivery.count.limit",
            "group.share.max.partition.max.record.locks",
            "group.share.max.record.lock.duration.ms",
            "group.share.max.share.sessions",
            "group.share.min.delivery.count.limit",
            "group.share.min.partition.max.record.locks",
            "group.share.min.record.lock.duration.ms",
            "group.share.partition.max.record.locks",
            "group.share.record.lock.duration.ms",
            "group.streams.assignment.interval.ms",
            "group.streams.heartbeat.interval.ms",
            "group.streams.initial.rebalance.delay.ms",
            "group.streams.max.assignment.interval.ms",
            "group.streams.max.heartbeat.interval.ms",
            "group.streams.max.session.timeout.ms",
            "group.streams.max.size",
            "group.streams.max.standby.replicas",
            "group.streams.min.assignment.interval.ms",
            "group.streams.min.heartbeat.interval.ms",
            "group.streams.min.session.timeout.ms",
            "group.streams.num.standby.replicas",
            "group.streams.session.timeout.ms",
            "initial.broker.registration.timeout.ms",
            "inter.broker.listener.name",
            "leader.imbalance.check.interval.seconds",
            "leader.replication.throttled.rate",
            "listener.security.protocol.map",
            "listeners",
            "log.cleaner.backoff.ms",
            "log.cleaner.dedupe.buffer.size",
            "log.cleaner.delete.retention.ms",
            "log.cleaner.io.max.bytes.per.second",
            "log.cleaner.max.compaction.lag.ms",
            "log.cleaner.min.cleanable.ratio",
            "log.cleaner.min.compaction.lag.ms",
            "log.cleanup.policy",
            "log.dir",
            "log.dirs",
            "log.flush.interval.messages",
            "log.flush.interval.ms",
            "log.flush.offset.checkpoint.interval.ms",
            "log.flush.scheduler.interval.ms",
            "log.index.interval.bytes",
            "log.index.size.max.bytes",
            "log.message.timestamp.after.max.ms",
            "log.message.timestamp.before.max.ms",
            "log.message.timestamp.type",
            "log.retention.bytes",
            "log.retention.check.interval.ms",
            "log.retention.hours",
            "log.retention.minutes",
            "log.retention.ms",
            "log.roll.hours",
            "log.roll.jitter.hours",
            "log.roll.jitter.ms",
            "log.roll.ms",
            "log.segment.bytes",
            "log.segment.delete.delay.ms",
            "max.connection.creation.rate",
            "max.connections",
            "max.connections.per.ip",
            "max.connections.per.ip.overrides",
            "max.incremental.fetch.session.cache.slots",
            "max.request.partition.size.limit",
            "message.max.bytes",
            "metadata.log.dir",
            "metadata.log.max.record.bytes.between.snapshots",
            "metadata.log.max.snapshot.interval.ms",
            "metadata.log.segment.bytes",
            "metadata.log.segment.ms",
            "metadata.max.retention.bytes",
            "metadata.max.retention.ms",
            "min.insync.replicas",
            "node.id",
            "num.partitions",
            "num.recovery.threads.per.data.dir",
            "num.replica.fetchers",
            "offset.metadata.max.bytes",
            "offsets.load.buffer.size",
            "offsets.retention.check.interval.ms",
            "offsets.retention.minutes",
            "offsets.topic.num.partitions",
            "offsets.topic.replication.factor",
            "offsets.topic.segment.bytes",
            "process.roles",
            "producer.id.expiration.check.interval.ms",
            "producer.id.expiration.ms",
            "queued.max.request.bytes",
            "quota.window.num",
            "quota.window.size.seconds",
            "replica.fetch.backoff.ms",
            "replica.fetch.max.bytes",
            "replica.fetch.min.bytes",
            "replica.fetch.response.max.bytes",
            "replica.fetch.wait.max.ms",
            "replica.high.watermark.checkpoint.interval.ms",
            "replica.lag.time.max.ms",
            "replica.selector.class",
            "replica.socket.timeout.ms",
            "replication.quota.window.num",
            "replication.quota.window.size.seconds",
            "request.timeout.ms",
            "sasl.enabled.mechanisms",
            "sasl.jaas.config",
            "sasl.mechanism.controller.protocol",
            "sasl.mechanism.inter.broker.protocol",
            "sasl.oauthbearer.client.credentials.client.id",
            "sasl.oauthbearer.client.credentials.client.secret",
            "sasl.oauthbearer.clock.skew.seconds",
            "sasl.oauthbearer.expected.audience",
            "sasl.oauthbearer.expected.issuer",
            "sasl.oauthbearer.jwks.endpoint.refresh.ms",
            "sasl.oauthbearer.jwks.endpoint.url",
            "sasl.oauthbearer.scope",
            "sasl.oauthbearer.scope.claim.name",
            "sasl.oauthbearer.sub.claim.name",
            "sasl.oauthbearer.token.endpoint.url",
            "sasl.server.callback.handler.class",
            "sasl.server.max.receive.size",
            "security.inter.broker.protocol",
            "share.coordinator.state.topic.min.isr",
            "share.coordinator.state.topic.num.partitions",
            "share.coordinator.state.topic.replication.factor",
            "share.coordinator.state.topic.segment.bytes",
            "socket.listen.backlog.size",
            "socket.receive.buffer.bytes",
            "socket.request.max.bytes",
            "socket.send.buffer.bytes",
            "super.users",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms",
            "transaction.max.timeout.ms",
            "transaction.partition.verification.enable",
            "transaction.remove.expired.transaction.cleanup.interval.ms",
            "transaction.state.log.load.buffer.size",
            "transaction.state.log.min.isr",
            "transaction.state.log.num.partitions",
            "transaction.state.log.replication.factor",
            "transaction.state.log.segment.bytes",
            "transactional.id.expiration.ms",
            "unclean.leader.election.enable",
            "unclean.leader.election.interval.ms",
        }
    )
    | _TLS
)

# Features that the design promises and this release does not have yet, by prefix or by name.
_PLANNED_BROKER = (
    "alter.log.dirs.",
    "client.quota.callback.class",
    "config.providers",
    "controller.quorum.",
    "controller.socket.",
    "cordoned.log.dirs",
    "fetch.purgatory.",
    "follower.fetch.",
    "follower.replication.",
    "group.",
    "leader.replication.",
    "listener.name.",
    "log.cleaner.enable",
    "log.dir.failure.timeout.ms",
    "log.flush.start.offset.",
    "log.initial.task.",
    "log.local.retention.",
    "metadata.max.idle.interval.ms",
    "offsets.",
    "principal.builder.class",
    "queued.max.requests",
    "remote.",
    "replica.",
    "replication.quota.",
    "rlmm.config.",
    "rsm.config.",
    "sasl.",
    "share.",
    "telemetry.",
    "transaction.",
    "transactional.",
)

_PLANNED_TOPIC = frozenset(
    {
        "local.retention.bytes",
        "local.retention.ms",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
    }
)

# Preallocation was not measured to help, and small segments are for Kafka's own tests.
_IGNORED_TOPIC = frozenset({"internal.segment.bytes", "preallocate"})

# Those of share and streams groups arrive with their coordinators.
_HONOURED_GROUP = frozenset(
    {
        "consumer.assignment.interval.ms",
        "consumer.heartbeat.interval.ms",
        "consumer.session.timeout.ms",
        "penstock.share.retry.backoff.jitter",
        "penstock.share.retry.backoff.max.ms",
        "penstock.share.retry.backoff.ms",
        "penstock.share.retry.backoff.multiplier",
        "share.auto.offset.reset",
        "share.delivery.count.limit",
        "share.isolation.level",
        "share.partition.max.record.locks",
        "share.record.lock.duration.ms",
        "share.renew.acknowledge.enable",
        "streams.assignment.interval.ms",
        "streams.heartbeat.interval.ms",
        "streams.initial.rebalance.delay.ms",
        "streams.num.standby.replicas",
        "streams.session.timeout.ms",
    }
)

# Below a listener's prefix these count for that listener; other keys do not, so far.
_HONOURED_BY_LISTENER = (
    frozenset(
        {
            "connections.max.idle.ms",
            "connections.max.reauth.ms",
            "max.connection.creation.rate",
            "max.connections",
            "sasl.enabled.mechanisms",
            "sasl.jaas.config",
            "sasl.oauthbearer.client.credentials.client.id",
            "sasl.oauthbearer.client.credentials.client.secret",
            "sasl.oauthbearer.clock.skew.seconds",
            "sasl.oauthbearer.expected.audience",
            "sasl.oauthbearer.expected.issuer",
            "sasl.oauthbearer.jwks.endpoint.refresh.ms",
            "sasl.oauthbearer.jwks.endpoint.url",
            "sasl.oauthbearer.scope",
            "sasl.oauthbearer.scope.claim.name",
            "sasl.oauthbearer.sub.claim.name",
            "sasl.oauthbearer.token.endpoint.url",
            "sasl.server.callback.handler.class",
            "sasl.server.max.receive.size",
            "socket.listen.backlog.size",
            "socket.request.max.bytes",
        }
    )
    | _TLS
)


def status_of(scope: str, name: str) -> str:
    """honoured, planned or ignored."""
    if scope == "topic":
        if name in _IGNORED_TOPIC:
            return IGNORED
        return PLANNED if name in _PLANNED_TOPIC else HONOURED
    if scope == "group":
        return HONOURED if name in _HONOURED_GROUP else PLANNED
    if scope != "broker":
        return PLANNED  # client metrics arrive with their receiver
    if name in _HONOURED_BROKER:
        return HONOURED
    return PLANNED if name.startswith(_PLANNED_BROKER) else IGNORED


def listener_status_of(name: str) -> str:
    """The status of a broker key below a listener's prefix."""
    return HONOURED if name in _HONOURED_BY_LISTENER else PLANNED
