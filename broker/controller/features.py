"""Feature levels: a check of brokers that register, and raises by administrators (KIP-584).

A new cluster starts at the newest level of the version that makes it. One that an earlier version
made stays at its level until an administrator raises it, and all brokers that are registered, alive
or not, must support the new level: an earlier version could not read the records written then.
"""

from __future__ import annotations

from pylog import errors
from pylog.model import BrokerId
from pylog_broker.controller.ledger import Ledger
from pylog_broker.metadata.admin import FeatureState, FeaturesUpdated, UpdateFeatures
from pylog_broker.metadata.features import SUPPORTED, level_of, range_of
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import Failure, RegisterBroker
from pylog_broker.metadata.records import FeatureLevelRecord, FeatureRange, Software

NAMED_MAX = 5
"""The most brokers that a message names."""


def refusal(image: MetadataImage, request: RegisterBroker) -> Failure | None:
    """The refusal of a broker that cannot read this cluster's metadata; None for one that can."""
    for feature in SUPPORTED:
        level = level_of(image.features, feature.name)
        supported = range_of(request.software.features, feature.name)
        if not supported.lowest <= level <= supported.highest:
            return Failure(
                errors.UnsupportedVersion.code,
                f"broker {request.broker_id} runs {_shown(request.software)}, which supports "
                f"{feature.name} {_levels(supported)}; this cluster has level {level}. Run a "
                "version on it that supports this level",
            )
    return None


class Features:
    """Writes feature levels to the ledger. Owns no state."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def describe(self, image: MetadataImage) -> tuple[FeatureState, ...]:
        """Every feature that this version knows."""
        return tuple(
            self._state(image, each, level_of(image.features, each.name)) for each in SUPPORTED
        )

    def _state(self, image: MetadataImage, feature: FeatureRange, level: int) -> FeatureState:
        told = [
            range_of(broker.software.features, feature.name) for broker in image.brokers.values()
        ]
        return FeatureState(
            feature.name,
            level,
            max((feature.lowest, *(each.lowest for each in told))),
            min((feature.highest, *(each.highest for each in told))),
        )

    def finalize_newest(self) -> None:
        """For a new cluster: all that this version supports."""
        for feature in SUPPORTED:
            self._ledger.write(FeatureLevelRecord(feature.name, feature.highest))

    def update(self, request: UpdateFeatures) -> FeaturesUpdated:
        """Raises the levels; a level that holds already is no change."""
        image = self._ledger.decided
        names = [name for name, _ in request.levels]
        if not names:
            why = "no feature is named; nothing is changed"
            return FeaturesUpdated(Failure(errors.InvalidRequest.code, why))
        for name, level in request.levels:
            failure = self._fault(image, name, level)
            if failure is None and names.count(name) > 1:
                why = f"feature {name}: the request names it twice"
                failure = Failure(errors.InvalidRequest.code, why)
            if failure is not None:
                return FeaturesUpdated(failure)
        if not request.validate_only:
            for name, level in request.levels:
                if level != level_of(image.features, name):
                    self._ledger.write(FeatureLevelRecord(name, level))
        wanted = dict(request.levels)
        return FeaturesUpdated(
            None,
            tuple(self._state(image, f, wanted[f.name]) for f in SUPPORTED if f.name in wanted),
        )

    def _fault(self, image: MetadataImage, name: str, level: int) -> Failure | None:
        feature = next((each for each in SUPPORTED if each.name == name), None)
        if feature is None:
            known = ", ".join(each.name for each in SUPPORTED)
            why = f"feature {name[:80]!r} is not known; there is {known}"
            return Failure(errors.InvalidRequest.code, why)
        now = level_of(image.features, name)
        if level < now:
            return _cannot(
                name,
                level,
                f"it is at {now}, and what was written since an earlier version cannot read",
            )
        if level > feature.highest:
            return _cannot(name, level, f"the controller supports {_levels(feature)}")
        behind = [
            broker
            for broker, registration in sorted(image.brokers.items())
            if range_of(registration.software.features, name).highest < level
        ]
        return _cannot(name, level, _who(image, behind, name)) if behind else None


def _cannot(name: str, level: int, why: str) -> Failure:
    return Failure(
        errors.InvalidUpdateVersion.code, f"feature {name} cannot be set to level {level}: {why}"
    )


def _who(image: MetadataImage, behind: list[BrokerId], name: str) -> str:
    told = [
        f"broker {broker} ({_shown(image.brokers[broker].software)}) supports "
        f"{_levels(range_of(image.brokers[broker].software.features, name))}"
        for broker in behind[:NAMED_MAX]
    ]
    more = f", and {len(behind) - NAMED_MAX} more do not either" if len(behind) > NAMED_MAX else ""
    return f"{', '.join(told)}{more}; run a newer version there, or unregister those that are gone"


def _shown(software: Software) -> str:
    return f"{software.name} {software.version}" if software.name else "an earlier version"


def _levels(supported: FeatureRange) -> str:
    if supported.lowest == supported.highest:
        return f"level {supported.lowest} only"
    return f"levels {supported.lowest} to {supported.highest}"
