"""The rules for topics that may be dead-letter topics of share groups (KIP-1191). Pure."""

from __future__ import annotations

from typing import NamedTuple

from pylog.model import is_internal


class DeadLetterRules(NamedTuple):
    """The cluster's rules for dead-letter topics."""

    name_prefix: str = "dlq."
    """errors.deadletterqueue.topic.name.prefix"""
    auto_create: bool = False
    """errors.deadletterqueue.auto.create.topics.enable"""


def name_fault(topic: str, rules: DeadLetterRules) -> str | None:
    """The reason why a topic of that name cannot be a dead-letter topic; None: it can."""
    if topic.startswith("__") or is_internal(topic):
        return f"topic {topic!r} has the name of an internal one"
    if not topic.startswith(rules.name_prefix):
        return (
            f"the name of a dead-letter topic begins with {rules.name_prefix!r} "
            f"(errors.deadletterqueue.topic.name.prefix), not as {topic!r}"
        )
    return None


def topic_fault(topic: str, rules: DeadLetterRules, *, exists: bool, accepts: bool) -> str | None:
    """The reason why dead letters cannot go to the topic; None: they can, or can as soon as the
    topic is made. `accepts`: it has errors.deadletterqueue.group.enable.
    """
    if fault := name_fault(topic, rules):
        return fault
    if not exists and not rules.auto_create:
        return (
            f"there is no topic {topic!r}: create it with errors.deadletterqueue.group.enable=true,"
            " or set errors.deadletterqueue.auto.create.topics.enable for the brokers"
        )
    if exists and not accepts:
        return f"topic {topic!r} does not have errors.deadletterqueue.group.enable=true"
    return None
