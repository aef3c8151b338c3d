"""The version of kafka-python whose names and behaviour the adapter has."""

__version__ = "3.0.12"
