"""kafka-python's partitioners, which a producer asks for records without a partition."""

from pylog.compat.kafka_python.partitioner.default import (
    DefaultPartitioner,
    Partitioner,
    StickyPartitioner,
    chooser,
    murmur2,
)

__all__ = ["DefaultPartitioner", "Partitioner", "StickyPartitioner", "chooser", "murmur2"]
