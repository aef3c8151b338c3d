"""Names of access control and users: programs may import and make them, and the admin client says
that pylog has none of it yet.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from pylog.compat.confluent_kafka.admin.resources import (
    ResourcePatternType,
    ResourceType,
    member_of,
)


class AclOperation(Enum):
    """The operations that an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


TOPIC_OPERATIONS: Final = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
GROUP_OPERATIONS: Final = (
    AclOperation.READ,
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
CLUSTER_OPERATIONS: Final = (
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.IDEMPOTENT_WRITE,
)
"""The operations that exist for each kind of resource, as in Kafka."""


class AclPermissionType(Enum):
    """Whether it may be done."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclBinding:
    """An ACL: it allows a principal an operation on a resource, or denies it."""

    def __init__(
        self,
        restype: Any,
        name: str,
        resource_pattern_type: Any,
        principal: str,
        host: str,
        operation: Any,
        permission_type: Any,
    ) -> None:
        self.restype = member_of(ResourceType, restype)
        self.name = name
        self.resource_pattern_type = member_of(ResourcePatternType, resource_pattern_type)
        self.principal = principal
        self.host = host
        self.operation = member_of(AclOperation, operation)
        self.permission_type = member_of(AclPermissionType, permission_type)

    def _key(self) -> tuple[Any, ...]:
        return tuple(vars(self).values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AclBinding) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({','.join(str(part) for part in self._key())})"


class AclBindingFilter(AclBinding):
    """The same as a filter, in which None fits all."""


class ScramMechanism(Enum):
    """The mechanisms by which a user proves a password."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


class ScramCredentialInfo:
    """The form in which a password is stored."""

    def __init__(self, mechanism: ScramMechanism, iterations: int) -> None:
        self.mechanism = mechanism
        self.iterations = iterations


class UserScramCredentialsDescription:
    """The forms in which a user's passwords are stored."""

    def __init__(self, user: str, scram_credential_infos: list[ScramCredentialInfo]) -> None:
        self.user = user
        self.scram_credential_infos = scram_credential_infos


class UserScramCredentialAlteration:
    """A change of a user's password."""

    def __init__(self, user: str) -> None:
        self.user = user


class UserScramCredentialUpsertion(UserScramCredentialAlteration):
    """A user's new password."""

    def __init__(
        self,
        user: str,
        scram_credential_info: ScramCredentialInfo,
        password: bytes,
        salt: bytes | None = None,
    ) -> None:
        super().__init__(user)
        self.scram_credential_info = scram_credential_info
        self.password = password
        self.salt = salt


class UserScramCredentialDeletion(UserScramCredentialAlteration):
    """A user's password goes."""

    def __init__(self, user: str, mechanism: ScramMechanism) -> None:
        super().__init__(user)
        self.mechanism = mechanism
