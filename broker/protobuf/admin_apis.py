"""The Admin service's APIs, bound to the gateway's handlers, and BrokerAdmin's to a broker's."""

from __future__ import annotations

from pylog.rpc import apis
from pylog_broker.api.admin import AdminHandler
from pylog_broker.api.broker_admin import DescribeConfigsHandler, DescribeLogDirsHandler
from pylog_broker.api.broker_description import DescribeBrokerHandler
from pylog_broker.protobuf import admin, broker_admin
from pylog_broker.protobuf.unary import AnyBound, Bound


def admin_apis(handler: AdminHandler) -> tuple[AnyBound, ...]:
    """The gateway's APIs for administrators."""
    return (
        Bound(
            apis.CREATE_TOPICS, admin.new_topics_from, handler.create_topics, admin.topics_created
        ),
        Bound(apis.DELETE_TOPICS, admin.deletion_from, handler.delete_topics, admin.topics_deleted),
        Bound(
            apis.CREATE_PARTITIONS,
            admin.growth_from,
            handler.create_partitions,
            admin.partitions_created,
        ),
        Bound(
            apis.DESCRIBE_CONFIGS,
            admin.questions_from,
            handler.describe_configs,
            admin.configs_described,
        ),
        Bound(apis.ALTER_CONFIGS, admin.changes_from, handler.alter_configs, admin.configs_altered),
        Bound(
            apis.ELECT_LEADERS, admin.election_from, handler.elect_leaders, admin.leaders_elected
        ),
        Bound(
            apis.ALTER_PARTITION_REASSIGNMENTS,
            admin.reassignments_from,
            handler.alter_partition_reassignments,
            admin.reassignments_altered,
        ),
        Bound(
            apis.LIST_PARTITION_REASSIGNMENTS,
            admin.listing_from,
            handler.list_partition_reassignments,
            admin.reassignments_listed,
        ),
        Bound(
            apis.UNREGISTER_BROKER,
            admin.unregistered_from,
            handler.unregister_broker,
            admin.broker_unregistered,
        ),
        Bound(
            apis.DESCRIBE_CLUSTER,
            admin.no_question,
            handler.describe_cluster,
            admin.cluster_described,
        ),
        Bound(
            apis.DESCRIBE_FEATURES,
            admin.no_question,
            handler.describe_features,
            admin.features_described,
        ),
        Bound(
            apis.UPDATE_FEATURES, admin.levels_from, handler.update_features, admin.features_updated
        ),
    )


def broker_admin_apis(
    configs: DescribeConfigsHandler,
    log_dirs: DescribeLogDirsHandler,
    broker: DescribeBrokerHandler,
) -> tuple[AnyBound, ...]:
    """A broker's APIs for administrators."""
    return (
        Bound(
            apis.DESCRIBE_CONFIGS_OF_BROKER,
            admin.questions_from,
            configs.handle,
            admin.configs_described,
        ),
        Bound(
            apis.DESCRIBE_LOG_DIRS,
            admin.no_question,
            log_dirs.handle,
            broker_admin.log_dirs_described,
        ),
        Bound(
            apis.DESCRIBE_BROKER,
            admin.no_question,
            broker.handle,
            broker_admin.broker_described,
        ),
    )
