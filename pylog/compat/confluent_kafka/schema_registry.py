"""Not here: a client of a schema registry asks an HTTP server and no cluster, so that of
confluent-kafka serves programs of pylog as it is. Importing this says which line to write.
"""

raise ImportError(
    "pylog.compat.confluent_kafka.schema_registry is not there: install "
    "'confluent-kafka[schemaregistry]' and leave the line `from confluent_kafka.schema_registry "
    "import ...` as it is; its serializers work with pylog's clients"
)
