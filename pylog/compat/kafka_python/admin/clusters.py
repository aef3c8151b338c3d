"""The cluster, its disks and features, by kafka-python's calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pylog.compat.kafka_python.admin.calls import Calls, code_and_text, partitions_asked
from pylog.compat.kafka_python.translation import translating


class ClusterCalls(Calls):
    """The cluster as a whole."""

    def describe_cluster(self) -> dict[str, Any]:
        """The cluster's id and its brokers. `controller_id` is the first broker's: pylog's
        controller is no broker, and every broker passes on what is for it.
        """
        with translating():
            cluster = self._admin.describe_cluster(include_fenced_brokers=True)
        live = [broker.id for broker in cluster.brokers if not broker.fenced]
        return {
            "cluster_id": cluster.cluster_id,
            "controller_id": min(live, default=-1),
            "brokers": [
                {
                    "broker_id": broker.id,
                    "host": broker.host,
                    "port": broker.port,
                    "rack": broker.rack,
                    "is_fenced": broker.fenced,
                }
                for broker in cluster.brokers
            ],
            "cluster_authorized_operations": [],
        }

    def describe_log_dirs(
        self, topic_partitions: Any = None, brokers: Iterable[int] | None = None
    ) -> list[dict[str, Any]]:
        """The directories of each broker, with the size of each replica."""
        asked = None if topic_partitions is None else set(partitions_asked(topic_partitions))
        with translating():
            found = self._admin.describe_log_dirs(None if brokers is None else list(brokers))
        told = []
        for broker, directories in found.items():
            rows = []
            for directory in directories:
                topics: dict[str, list[dict[str, Any]]] = {}
                for tp, replica in directory.replicas.items():
                    wanted = asked is None or tuple(tp) in asked or (tp.topic, None) in asked
                    if wanted:
                        topics.setdefault(tp.topic, []).append(
                            {
                                "partition_index": tp.partition,
                                "partition_size": replica.size,
                                "offset_lag": replica.offset_lag,
                                "is_future_key": False,
                            }
                        )
                rows.append(
                    {
                        "error_code": code_and_text(directory.error)[0],
                        "log_dir": directory.path,
                        "topics": [
                            {"name": topic, "partitions": replicas}
                            for topic, replicas in topics.items()
                        ],
                        "total_bytes": directory.total_bytes,
                        "usable_bytes": directory.usable_bytes,
                    }
                )
            told.append({"broker": broker, "log_dirs": rows})
        return told

    def describe_features(self, send_request_to_controller: bool = False) -> dict[str, Any]:
        """Levels of features: what is supported, and what the cluster is at."""
        with translating():
            features = self._admin.describe_features().values()
        return {
            "supported_features": {f.name: (f.lowest, f.highest) for f in features},
            "finalized_features": {f.name: (f.level, f.level) for f in features},
            "finalized_features_epoch": None,
        }

    def update_features(
        self,
        feature_updates: Mapping[str, Any],
        validate_only: bool = False,
        timeout_ms: float = 60_000,
    ) -> dict[str, str]:
        """Raise features to these levels; "OK" for each."""
        levels = {
            name: int(given[1] if isinstance(given, tuple) else given)
            for name, given in feature_updates.items()
        }
        with translating():
            self._admin.update_features(
                levels, validate_only=validate_only, timeout=self._seconds(timeout_ms)
            )
        return dict.fromkeys(levels, "OK")
