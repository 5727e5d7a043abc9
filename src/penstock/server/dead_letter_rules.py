"""Where a share group's dead letters go, and whether they may: KIP-1191's rules, and ours. Pure.

The group names the topic. The broker says how such a topic must be called and whether it is made
when it is missing; the topic itself says whether it takes dead letters, because brokers write there
on behalf of clients that may have no right to.

| what is found                                             | what is done                        |
| --------------------------------------------------------- | ----------------------------------- |
| all is well                                               | the letters are written             |
| the topic is missing, and brokers may create such topics  | it is created, then written         |
| missing, not enabled, or a name that is not allowed       | letters wait, records stay archiving|
| the group names no topic any more                         | records are archived, without letter|
| the records come from a topic of dead letters             | the same: two such topics and their |
|                                                           | groups could send them round forever|

Kafka archives a record whose letter cannot be written. Here it waits: nothing is lost because
somebody forgot a setting, and a line in the log says which.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, cast

from penstock.metadata.configs import BROKER, GROUP, TOPIC
from penstock.model.config.groups import effective_group_config
from penstock.server.topic_configs import EVERY_BROKER

if TYPE_CHECKING:
    from penstock.metadata.image import MetadataImage
    from penstock.model.config.node import NodeConfig

ENABLE = "errors.deadletterqueue.group.enable"
CREATE = "errors.deadletterqueue.auto.create.topics.enable"
PREFIX = "errors.deadletterqueue.topic.name.prefix"
TOPIC_NAME = "errors.deadletterqueue.topic.name"
COPY = "errors.deadletterqueue.copy.record.enable"


class Course(Enum):
    """What is done with a letter."""

    WRITE = "write"
    CREATE = "create the topic, then write"
    WAIT = "wait"
    ARCHIVE = "archive the record without one"


class Rules(NamedTuple):
    """What is configured now."""

    topic: str
    """Of the group; empty for none."""
    copies: bool
    """Whether letters have the record's key, value and headers."""
    prefix: str
    creates: bool

    @classmethod
    def of(cls, group_id: str, image: MetadataImage, node: NodeConfig) -> Rules:
        configs = image.configs
        now = node.overlaid(configs.of(BROKER, EVERY_BROKER), configs.of(BROKER, str(node.node_id)))
        group = effective_group_config(configs.of(GROUP, group_id), node)
        return cls(
            cast(str, group[TOPIC_NAME]).strip(),
            cast(bool, group[COPY]),
            now.get_str(PREFIX) or "",
            now.get_bool(CREATE),
        )


class Ruling(NamedTuple):
    """What is done, and for those who look after the node: why not more."""

    course: Course
    why: str = ""


def takes_letters(image: MetadataImage, topic: str) -> bool:
    """Whether a topic says that it is one of dead letters."""
    return image.configs.of(TOPIC, topic).get(ENABLE, "").strip().lower() == "true"


def ruling(rules: Rules, source: str, image: MetadataImage) -> Ruling:
    """What is to be done with letters of records from topic `source`."""
    name = rules.topic
    if not name:
        return Ruling(Course.ARCHIVE, f"the group has no {TOPIC_NAME}")
    if name == source or takes_letters(image, source):
        return Ruling(Course.ARCHIVE, f"{source} is a topic of dead letters itself")
    if name.startswith("__"):
        return Ruling(Course.WAIT, f"{name} could be an internal topic: set another {TOPIC_NAME}")
    if not name.startswith(rules.prefix):
        return Ruling(
            Course.WAIT,
            f"{name} does not begin with {rules.prefix!r}: set another {TOPIC_NAME} for the group, "
            f"or another {PREFIX} for the cluster",
        )
    if name in image.topics.by_name:
        if takes_letters(image, name):
            return Ruling(Course.WRITE)
        return Ruling(Course.WAIT, f"{name} takes no dead letters: set {ENABLE}=true for the topic")
    if rules.creates:
        return Ruling(Course.CREATE)
    return Ruling(
        Course.WAIT, f"{name} does not exist: create it with {ENABLE}=true, or set {CREATE}=true"
    )
