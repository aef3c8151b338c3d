"""Settings of Kafka's clients that pylog's do not have, and why: nobody should take one that is not
there for a typing mistake. Delete a row when the setting comes to be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_GROUPS: Final = "consumer groups are not offered yet; give the consumer topics, or assign() it"
_TRANSACTIONS: Final = "transactions are not offered yet; leave it out"
_SECURITY: Final = "TLS and authentication are not offered yet; leave it out"
_BUFFERS: Final = "the operating system sizes the buffers of sockets"
_METRICS: Final = "metrics() tells the metrics; nothing else reports them"

_COMMON: Final[Mapping[str, str]] = {
    "client.dns.lookup": "each address of a name is tried in turn",
    "enable.metrics.push": _METRICS,
    "metric.reporters": _METRICS,
    "metrics.num.samples": _METRICS,
    "metrics.recording.level": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    "receive.buffer.bytes": _BUFFERS,
    "send.buffer.bytes": _BUFFERS,
    "security.protocol": _SECURITY,
    "security.providers": _SECURITY,
    "sasl.jaas.config": _SECURITY,
    "sasl.mechanism": _SECURITY,
    "sasl.kerberos.service.name": _SECURITY,
    "sasl.oauthbearer.token.endpoint.url": _SECURITY,
    "ssl.ca.location": _SECURITY,
    "ssl.certificate.location": _SECURITY,
    "ssl.endpoint.identification.algorithm": _SECURITY,
    "ssl.key.location": _SECURITY,
    "ssl.key.password": _SECURITY,
    "ssl.keystore.location": _SECURITY,
    "ssl.keystore.password": _SECURITY,
    "ssl.protocol": _SECURITY,
    "ssl.truststore.location": _SECURITY,
    "ssl.truststore.password": _SECURITY,
}
PRODUCER_ABSENT: Final[Mapping[str, str]] = {
    **_COMMON,
    "transactional.id": _TRANSACTIONS,
    "transaction.timeout.ms": _TRANSACTIONS,
}
CONSUMER_ABSENT: Final[Mapping[str, str]] = {
    **_COMMON,
    "allow.auto.create.topics": "topics are made by AdminClient.create_topics only",
    "auto.commit.interval.ms": _GROUPS,
    "enable.auto.commit": _GROUPS,
    "group.instance.id": _GROUPS,
    "group.protocol": _GROUPS,
    "group.remote.assignor": _GROUPS,
    "heartbeat.interval.ms": _GROUPS,
    "max.poll.interval.ms": _GROUPS,
    "partition.assignment.strategy": _GROUPS,
    "session.timeout.ms": _GROUPS,
}
ADMIN_ABSENT: Final = _COMMON
