"""Not here: confluent-kafka's own module is deprecated, and its clients are librdkafka's. Importing
this says which line to write.
"""

raise ImportError(
    "pylog.compat.confluent_kafka.avro is not there: install "
    "'confluent-kafka[avro,schemaregistry]' and write `from confluent_kafka.schema_registry.avro "
    "import AvroSerializer` for a SerializingProducer of pylog"
)
