"""The handlers of share groups, of one broker."""

from __future__ import annotations

from dataclasses import dataclass

from pylog_broker.api.share_groups.fetching import ShareFetchingHandler
from pylog_broker.api.share_groups.members import ShareMembersHandler
from pylog_broker.api.share_groups.offsets import ShareOffsetsHandler


@dataclass(frozen=True, slots=True)
class ShareApi:
    """All of them. Handlers live on the broker's loop."""

    members: ShareMembersHandler
    fetching: ShareFetchingHandler
    offsets: ShareOffsetsHandler
