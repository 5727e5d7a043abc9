"""What each key does, in our words: a sentence for what Penstock honours, a phrase for the rest.

Imported only where somebody reads it: DescribeConfigs with documentation, and the reference page.
"""

from __future__ import annotations


def description_of(scope: str, name: str) -> str:
    """What the key does, in a sentence or two."""
    described = _SCOPES[scope].get(name)
    if described is not None:
        return described
    matches = [prefix for prefix in _FAMILIES if name.startswith(prefix)]
    return _FAMILIES[max(matches, key=len)] if matches else ""


_TOPIC = {
    "cleanup.policy": "What happens to old data: delete drops whole segments by age and size, "
    "compact keeps the latest record of each key, both do both, and none keeps everything.",
    "compression.gzip.level": "The gzip level, if the broker recompresses to gzip; -1 is the "
    "library's default.",
    "compression.lz4.level": "The lz4 level, if the broker recompresses to lz4.",
    "compression.type": "The codec in which batches are stored. producer keeps whatever the "
    "producer chose, which costs the broker nothing.",
    "compression.zstd.level": "The zstd level, if the broker recompresses to zstd.",
    "delete.retention.ms": "How long a tombstone stays readable in a compacted topic, so that a "
    "consumer that starts from the beginning still sees the deletion.",
    "errors.deadletterqueue.group.enable": "Whether share groups may use the topic for their dead "
    "letters: brokers write there what producers may have no right to.",
    "file.delete.delay.ms": "How long a deleted segment stays on disk under another name, for "
    "readers that still have it open.",
    "flush.messages": "Force data to disk after this many records. With 1, an acknowledgement "
    "waits for the disk. The default leaves it to the operating system and to replication.",
    "flush.ms": "Force data to disk after this long at the latest.",
    "follower.replication.throttled.replicas": "Replicas, as PARTITION:BROKER, whose fetching is "
    "held to the broker's follower rate; * means all.",
    "index.interval.bytes": "About how many bytes of log lie between two entries of the offset "
    "index: fewer make reads land closer and the index larger.",
    "internal.segment.bytes": "A segment size below what segment.bytes allows, for tests.",
    "leader.replication.throttled.replicas": "Replicas, as PARTITION:BROKER, that leaders serve "
    "no faster than the broker's leader rate; * means all.",
    "local.retention.bytes": "How much of each partition stays on local disk once it is copied "
    "to remote storage; -2 means retention.bytes.",
    "local.retention.ms": "How long a segment stays on local disk once it is copied to remote "
    "storage; -2 means retention.ms.",
    "max.compaction.lag.ms": "A record is compacted at the latest after this long, however "
    "little of the log is dirty.",
    "max.message.bytes": "The largest batch that the topic takes, after compression.",
    "message.timestamp.after.max.ms": "How far ahead of the broker's clock a record's timestamp "
    "may be before it is refused.",
    "message.timestamp.before.max.ms": "How far behind the broker's clock a record's timestamp "
    "may be before it is refused.",
    "message.timestamp.type": "Whose clock stamps a record: CreateTime is the producer's, "
    "LogAppendTime the broker's.",
    "min.cleanable.dirty.ratio": "The share of the log that must be uncompacted before compaction "
    "begins. Lower means less wasted space and more work.",
    "min.compaction.lag.ms": "A record stays uncompacted for at least this long.",
    "min.insync.replicas": "How many replicas must have a record before acks=all is answered; "
    "with fewer in sync, such writes are refused.",
    "penstock.delivery.delay.enable": "Whether records with the header penstock-deliver-at (epoch "
    "milliseconds) or penstock-delay-ms become readable at their time and not before. What waits "
    "is delivered even after this is turned off. Does not go with compaction.",
    "penstock.delivery.delay.max.ms": "How far ahead a record may be delayed; one that asks for "
    "more is refused.",
    "penstock.delivery.delay.max.records": "How many delayed records may wait in one partition; "
    "more are refused.",
    "penstock.ttl.enable": "Whether records with the header penstock-ttl-ms expire: share groups "
    "get none that is older than its header says. Retention and compaction do not heed it.",
    "preallocate": "Whether a new segment's file takes its full size at once.",
    "remote.log.copy.disable": "Stop copying to remote storage and leave what is there readable.",
    "remote.log.delete.on.disable": "Delete what is in remote storage when it is turned off.",
    "remote.storage.enable": "Copy closed segments to remote storage.",
    "retention.bytes": "How large a partition may grow before its oldest segments go; -1 sets no "
    "bound.",
    "retention.ms": "How old a segment may grow before it goes; -1 keeps it for ever.",
    "segment.bytes": "How large a segment may grow before the next one begins.",
    "segment.index.bytes": "How large a segment's index may grow before the next segment begins.",
    "segment.jitter.ms": "Segments roll by up to this much earlier, at random, so that not all "
    "roll at once.",
    "segment.ms": "A segment rolls after this long even if it is not full, so that retention and "
    "compaction get at it.",
    "unclean.leader.election.enable": "Whether a replica that lags may lead when no other is "
    "left, at the price of what it does not have.",
}

_GROUP = {
    "consumer.assignment.interval.ms": "The least time between two assignments of the group.",
    "consumer.heartbeat.interval.ms": "How often members of a consumer group report.",
    "consumer.session.timeout.ms": "A member that is silent for this long leaves the group.",
    "errors.deadletterqueue.copy.record.enable": "Whether a dead letter has the record's key, "
    "value and headers; if not, its own headers say where the record is.",
    "errors.deadletterqueue.topic.name": "Where records go that members of a share group reject, "
    "or that were delivered as often as the group allows; empty for nowhere. The topic has to have "
    "errors.deadletterqueue.group.enable=true.",
    "penstock.share.retry.backoff.jitter": "By what part of itself the wait before a record is "
    "delivered again varies, by chance: 0.2 for a fifth more or less.",
    "penstock.share.retry.backoff.max.ms": "The longest wait before a record is delivered again.",
    "penstock.share.retry.backoff.ms": "How long a record that a member of a share group released, "
    "or kept for too long, waits before it is delivered again; 0 for not at all.",
    "penstock.share.retry.backoff.multiplier": "What the wait is multiplied with after each "
    "delivery; 1 keeps it as it is.",
    "share.assignment.interval.ms": "The least time between two assignments of the group.",
    "share.auto.offset.reset": "Where a share group starts in a partition that it never read: "
    "latest, earliest, or by_duration: and how far back.",
    "share.delivery.count.limit": "How often a record is delivered before the share group gives "
    "it up.",
    "share.heartbeat.interval.ms": "How often members of a share group report.",
    "share.isolation.level": "Whether a share group sees records of open and aborted transactions.",
    "share.partition.max.record.locks": "How many records of a partition may be out with members "
    "of a share group at a time.",
    "share.record.lock.duration.ms": "How long a member may keep a record before another gets it.",
    "share.renew.acknowledge.enable": "Whether members may ask to keep a record for longer.",
    "share.session.timeout.ms": "A member that is silent for this long leaves the group.",
    "streams.assignment.interval.ms": "The least time between two assignments of the group.",
    "streams.heartbeat.interval.ms": "How often members of a streams group report.",
    "streams.initial.rebalance.delay.ms": "How long a new streams group waits for more members "
    "before it assigns tasks.",
    "streams.num.standby.replicas": "How many warm copies of each task's state are kept.",
    "streams.session.timeout.ms": "A member that is silent for this long leaves the group.",
}

_CLIENT_METRICS = {
    "interval.ms": "How often matching clients push their metrics.",
    "match": "Which clients, as PARAMETER=PATTERN; all must match. Empty matches every client.",
    "metrics": "Prefixes of the metrics to push; * means all.",
}

_BROKER = {
    "advertised.listeners": "The addresses that clients are told to connect to, one for each "
    "listener. Without it, they are told what listeners says.",
    "auto.create.topics.enable": "Whether asking for a topic that does not exist creates it.",
    "broker.heartbeat.interval.ms": "How often a broker tells the controller that it is alive.",
    "broker.id": "The older name of node.id.",
    "broker.rack": "Where the node stands. Replicas of a partition are spread over racks.",
    "broker.session.timeout.ms": "A broker that is silent for this long is fenced: it leads "
    "nothing until it returns.",
    "compression.gzip.level": _TOPIC["compression.gzip.level"],
    "compression.lz4.level": _TOPIC["compression.lz4.level"],
    "compression.type": _TOPIC["compression.type"],
    "compression.zstd.level": _TOPIC["compression.zstd.level"],
    "connections.max.idle.ms": "A connection without traffic for this long is closed.",
    "controller.listener.names": "Listeners for the controller quorum, first choice first.",
    "controller.quorum.voters": "The controllers of a quorum that never changes, each as "
    "ID@HOST:PORT.",
    "default.replication.factor": "Replicas of a topic that does not say how many.",
    "delegation.token.expiry.check.interval.ms": "How often tokens that are no longer good are "
    "taken away.",
    "delegation.token.expiry.time.ms": "For how long a token is good unless it is renewed, and the "
    "longest time by which it is renewed at once.",
    "delegation.token.max.lifetime.ms": "After which time a token cannot be renewed any more.",
    "delegation.token.secret.key": "The key that the secrets of tokens are made from; the same on "
    "every broker and controller. Without it there are no tokens.",
    "delete.topic.enable": "Whether topics can be deleted at all.",
    "fetch.max.bytes": "The most that one fetch answers, whatever the client asks for; a single "
    "larger batch still goes out.",
    "inter.broker.listener.name": "The listener on which brokers talk to each other.",
    "listener.security.protocol.map": "The security of each listener, as NAME:PROTOCOL.",
    "listeners": "The sockets to open, each as NAME://HOST:PORT. Without a host, all interfaces; "
    "port 0 picks a free one.",
    "log.cleaner.backoff.ms": "How long the compactor sleeps when it finds nothing to do.",
    "log.cleaner.dedupe.buffer.size": "Memory for the keys of one compaction pass; more keys "
    "take more passes.",
    "log.cleaner.delete.retention.ms": _TOPIC["delete.retention.ms"],
    "log.cleaner.enable": "Whether compacted topics are compacted.",
    "log.cleaner.io.max.bytes.per.second": "Bytes that compaction reads and writes in a second.",
    "log.cleaner.max.compaction.lag.ms": _TOPIC["max.compaction.lag.ms"],
    "log.cleaner.min.cleanable.ratio": _TOPIC["min.cleanable.dirty.ratio"],
    "log.cleaner.min.compaction.lag.ms": _TOPIC["min.compaction.lag.ms"],
    "log.cleanup.policy": _TOPIC["cleanup.policy"],
    "log.dir": "The directory for data, if log.dirs is not set.",
    "log.dirs": "Directories for data. New partitions go to the one with the fewest; one that "
    "fails takes only its own partitions offline.",
    "log.flush.interval.messages": _TOPIC["flush.messages"],
    "log.flush.interval.ms": _TOPIC["flush.ms"],
    "log.flush.offset.checkpoint.interval.ms": "How often the point from which a crash would "
    "have to recover is written down.",
    "log.flush.scheduler.interval.ms": "The value of log.flush.interval.ms, if that is not set.",
    "log.flush.start.offset.checkpoint.interval.ms": "How often each log's first offset is "
    "written down, so that deleted records stay deleted.",
    "log.index.interval.bytes": _TOPIC["index.interval.bytes"],
    "log.index.size.max.bytes": _TOPIC["segment.index.bytes"],
    "log.initial.task.delay.ms": "How long after the start retention and checkpoints begin.",
    "log.message.timestamp.after.max.ms": _TOPIC["message.timestamp.after.max.ms"],
    "log.message.timestamp.before.max.ms": _TOPIC["message.timestamp.before.max.ms"],
    "log.message.timestamp.type": _TOPIC["message.timestamp.type"],
    "log.preallocate": _TOPIC["preallocate"],
    "log.retention.bytes": _TOPIC["retention.bytes"],
    "log.retention.check.interval.ms": "How often retention is looked after.",
    "log.retention.hours": "How old a segment may grow, in hours; the finer units win.",
    "log.retention.minutes": "How old a segment may grow, in minutes; log.retention.ms wins.",
    "log.retention.ms": _TOPIC["retention.ms"],
    "log.roll.hours": "A segment rolls after this many hours; log.roll.ms wins.",
    "log.roll.jitter.hours": "The random part of log.roll.hours; log.roll.jitter.ms wins.",
    "log.roll.jitter.ms": _TOPIC["segment.jitter.ms"],
    "log.roll.ms": _TOPIC["segment.ms"],
    "log.segment.bytes": _TOPIC["segment.bytes"],
    "log.segment.delete.delay.ms": _TOPIC["file.delete.delay.ms"],
    "max.connection.creation.rate": "New connections a second of the node, or of a listener by its "
    "prefix; those beyond it wait to be accepted.",
    "max.connections": "Connections that the node, or a listener by its prefix, holds at a time; "
    "more wait to be accepted. Where it is not set, as many as there are file descriptors for: a "
    "third of the limit of open files, and at most 100,000.",
    "max.connections.per.ip": "Connections from one address at a time; more are closed. Where it "
    "is not set, nine tenths of max.connections.",
    "max.connections.per.ip.overrides": "Exceptions to max.connections.per.ip, as HOST:COUNT.",
    "max.incremental.fetch.session.cache.slots": "Fetch sessions to remember. Clients without "
    "one repeat their whole list of partitions in every fetch.",
    "max.request.partition.size.limit": "Partitions that one answer about topics describes.",
    "message.max.bytes": _TOPIC["max.message.bytes"],
    "metadata.log.dir": "The directory for the metadata log; without it, the first of log.dirs.",
    "metadata.log.max.record.bytes.between.snapshots": "Take a snapshot of the metadata once "
    "this much was logged since the last.",
    "metadata.log.max.snapshot.interval.ms": "Take a snapshot of changed metadata after this "
    "long; 0 leaves it to the size alone.",
    "metadata.log.segment.bytes": "How large a segment of the metadata log may grow.",
    "metadata.log.segment.ms": "How old a segment of the metadata log may grow.",
    "metadata.max.retention.bytes": "How much of the metadata log and its snapshots is kept.",
    "metadata.max.retention.ms": "How long old metadata segments and snapshots are kept.",
    "min.insync.replicas": _TOPIC["min.insync.replicas"],
    "node.id": "The node's number in the cluster, which is its own for ever.",
    "num.partitions": "Partitions of a topic that does not say how many.",
    "num.recovery.threads.per.data.dir": "Threads for each directory that check logs after a "
    "crash.",
    "process.roles": "What the node is: broker, controller, or both.",
    "producer.id.expiration.check.interval.ms": "How often idle producers are looked for.",
    "producer.id.expiration.ms": "A producer that was silent for this long is forgotten, and "
    "with it the protection from its duplicates.",
    "queued.max.request.bytes": "Memory for requests that have not arrived whole: beyond it, the "
    "connection that holds most of it is closed. -1 stands for 512 MB.",
    "quota.window.num": "Samples over which the rates of quotas are measured.",
    "quota.window.size.seconds": "How long each of these samples is.",
    "controller.quota.window.num": "Samples of which controller_mutation_rate grants a burst.",
    "controller.quota.window.size.seconds": "How long each of these samples is.",
    "sasl.server.max.receive.size": "The largest request of a client that has not logged in yet.",
    "queued.max.requests": "Requests in flight before the node stops reading.",
    "replica.high.watermark.checkpoint.interval.ms": "How often the last committed offset of "
    "each partition is written down.",
    "request.timeout.ms": "How long the broker waits for the controller's answer.",
    "security.inter.broker.protocol": "The security between brokers, which also names their "
    "listener, if inter.broker.listener.name is not set.",
    "socket.listen.backlog.size": "Connections that may wait to be accepted.",
    "socket.receive.buffer.bytes": "The receive buffer of a client's socket; -1 leaves it to the "
    "operating system.",
    "socket.request.max.bytes": "The largest request that is read; a larger one closes the "
    "connection.",
    "socket.send.buffer.bytes": "The send buffer of a client's socket; -1 leaves it to the "
    "operating system.",
    "super.users": "Users that need no permission, separated by semicolons.",
    "allow.everyone.if.no.acl.found": "Whether what no rule mentions is open to everyone.",
}

# For keys that Penstock does not honour: what they govern. The longest prefix counts.
_FAMILIES = {
    "add.partitions.to.txn.": "Retries while a transaction gains partitions.",
    "alter.config.policy.": "A class that judges changes of configuration.",
    "alter.log.dirs.replication.quota.": "How moves between directories are metered.",
    "authorizer.": "A class that decides who may do what.",
    "auto.leader.rebalance.": "Whether preferred replicas get their leadership back.",
    "background.threads": "A thread pool for housekeeping.",
    "client.quota.callback.": "A class that decides clients' quotas.",
    "config.providers": "Where ${...} in values is looked up.",
    "connection.failed.authentication.": "How long a failed login is kept waiting.",
    "connections.max.reauth.": "How long an authentication holds.",
    "controlled.shutdown.": "Whether a broker hands over its leaderships before it stops.",
    "controller.performance.": "What the controller logs about its own speed.",
    "controller.quorum.": "How controllers elect a leader and follow it.",
    "controller.quota.": "How changes of metadata are metered.",
    "controller.socket.": "Timeouts towards the controller.",
    "cordoned.log.dirs": "Directories that take no new partitions.",
    "create.topic.policy.": "A class that judges new topics.",
    "delete.records.purgatory.": "Housekeeping of parked requests.",
    "early.start.listeners": "Listeners that open before the authorizer is ready.",
    "errors.deadletterqueue.auto.create.topics.enable": "Whether a share group's dead-letter topic "
    "that does not exist is created when it is needed.",
    "errors.deadletterqueue.topic.name.prefix": "What names of dead-letter topics begin with; "
    "letters of a group that names another topic wait. Empty allows any name.",
    "fetch.purgatory.": "Housekeeping of parked fetches.",
    "follower.fetch.last.tiered.": "Where a new follower of a tiered topic begins.",
    "follower.replication.throttled.rate": "Bytes a second at which throttled followers fetch.",
    "group.consumer.": "Consumer groups of the newer protocol: bounds and defaults.",
    "group.coordinator.": "The group coordinator's batching and protocols.",
    "group.initial.rebalance.": "How long a new group waits for more members.",
    "group.m": "Bounds on classic consumer groups.",
    "group.share.": "Share groups: bounds and defaults.",
    "group.streams.": "Streams groups: bounds and defaults.",
    "initial.broker.registration.": "How long a broker tries to register before it gives up.",
    "internal.": "For Kafka's own tests.",
    "kafka.metrics.": "Reporters of the older metrics library.",
    "leader.imbalance.": "How often leadership is balanced.",
    "leader.replication.throttled.rate": "Bytes a second that leaders give throttled followers.",
    "log.cleaner.io.": "The compactor's buffers and its share of the disk.",
    "log.cleaner.threads": "Threads that compact.",
    "log.dir.failure.": "How long a broker with a failed directory waits for the controller.",
    "log.local.retention.": "What tiered topics keep on local disk.",
    "max.connection.creation.": "New connections a second.",
    "metadata.max.idle.": "How often an idle controller writes a sign of life.",
    "metric.reporters": "Classes that export metrics.",
    "metrics.": "How metrics are sampled.",
    "num.io.threads": "Threads that handle requests.",
    "num.network.threads": "Threads that read and write sockets.",
    "num.replica.alter.": "Threads that move partitions between directories.",
    "num.replica.fetchers": "Connections over which a follower fetches from each leader.",
    "offset.metadata.": "How much text a committed offset may carry.",
    "offsets.": "The topic of committed offsets, and how long they are kept.",
    "principal.builder.": "A class that makes a user's name from a connection.",
    "producer.purgatory.": "Housekeeping of parked produce requests.",
    "quota.": "How clients' use is metered.",
    "remote.": "Tiered storage: plugins, threads, caches and quotas.",
    "replica.": "How followers fetch, and when they count as in sync.",
    "replica.alter.log.dirs.io.": "Bytes a second for moves between directories.",
    "replication.quota.": "How throttled replication is metered.",
    "sasl.": "Authentication with SASL.",
    "sasl.kerberos.": "Authentication with Kerberos.",
    "sasl.login.": "How the broker's own credentials are obtained and renewed.",
    "sasl.oauthbearer.": "Authentication with OAuth tokens.",
    "security.providers": "Classes of Java's security providers.",
    "server.max.startup.": "How long a start may take.",
    "share.coordinator.": "The share coordinator: its topic, batching and snapshots.",
    "share.fetch.": "Housekeeping of parked share fetches.",
    "socket.connection.setup.": "Timeouts for connections that the broker opens.",
    "ssl.": "Encryption with TLS: keys, trust, protocols.",
    "telemetry.": "How much a client's metrics may hold.",
    "transaction.": "The transaction coordinator: its topic, timeouts and checks.",
    "transactional.id.": "When an unused transactional id is forgotten.",
    "unclean.leader.election.": "Whether a replica that lags may lead when no other is left.",
    "unstable.": "Versions and features that Kafka has not finished.",
}

_SCOPES = {
    "topic": _TOPIC,
    "group": _GROUP,
    "client-metrics": _CLIENT_METRICS,
    "broker": _BROKER,
}
