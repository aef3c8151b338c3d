"""Adapters for programs that were written for other clients of Kafka: they change the import line.

`kafka_python` and `confluent_kafka` have the names, shapes, defaults and blocking behaviour of
those libraries, over pylog's own clients. An argument that they cannot take raises an error that
says why.
"""
