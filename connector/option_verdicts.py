"""The verdict on each option of a pipeline, without Spark and without a cluster.

For those who move a pipeline of Spark's Kafka connector: the checks that a read or a write makes
are asked about one option after the other, so that everything is told at once, and not only the
first error. There is no second table. Save modes and output modes, which are no options, are judged
as well. Whether topics exist is for the cluster to say.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pylog_connector.errors import ConnectorError, MissingOption, OptionNotApplicable
from pylog_connector.option_names import (
    BOOTSTRAP,
    BOOTSTRAP_ALIAS,
    EXACTLY_ONCE,
    SELECTIONS,
    STREAM_ONLY,
    check_name,
    own_name,
    spelled,
    told,
)
from pylog_connector.options import (
    check_output_mode,
    check_streaming_sink,
    sink_options,
    source_options,
    without_effect,
)


class Use(Enum):
    """The four ways to use the format, by the names of Spark's builders."""

    READ = "read"
    READ_STREAM = "readStream"
    WRITE = "write"
    WRITE_STREAM = "writeStream"

    @property
    def is_write(self) -> bool:
        """Whether it is a sink."""
        return self in (Use.WRITE, Use.WRITE_STREAM)


class Becomes(Enum):
    """The treatment of an option."""

    WORKS = "works"
    WITHOUT_EFFECT = "taken without effect"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class OptionVerdict:
    """One option and what becomes of it. `because` is the reason, and of a refused option what to
    write instead; `value` leaves out what may be a secret. A missing option has no value.
    """

    option: str
    value: str
    becomes: Becomes
    because: str = ""

    def __str__(self) -> str:
        shown = f"{self.option}={self.value}" if self.value else self.option
        line = f"{self.becomes.value}: {shown}"
        return f"{line}: {self.because}" if self.because else line


APPEND: Final = "write .mode('append')"
FOREACH_BATCH: Final = (
    "write .foreachBatch(lambda frame, _: frame.write.format('pylog').options(**options)"
    ".mode('append').save()) in place of .format('pylog'), or .outputMode('append')"
)
_MISSING: Final = {BOOTSTRAP: "host:1", "subscribe": "topic"}
"""Stand-ins, so that what else there is to say is said in spite of a missing option."""


_UNKNOWN: Final = "with a value that is allowed; this one is known when the program runs"


def guessed_use(options: Mapping[str, str]) -> Use:
    """The use that the options point to: a stream wherever a batch is not certain of a read, and a
    batch wherever a stream is not certain of a write.
    """
    own = {name.lower() for name in options}
    if own & {name.lower() for name in SELECTIONS}:
        ends = any(name.startswith("ending") for name in own)
        return Use.READ if ends else Use.READ_STREAM
    return Use.WRITE_STREAM if "checkpointlocation" in own else Use.WRITE


def option_verdicts(
    options: Mapping[str, str],
    use: Use,
    *,
    mode: str | None = None,
    output_mode: str | None = None,
    unknown: Collection[str] = (),
) -> list[OptionVerdict]:
    """The verdict on every option, in the order given; then on options with unknown values, as far
    as their names tell; then on missing options, and on the modes, not all of which Spark lets a
    data source in Python have. `mode` and `output_mode`: as the pipeline sets them, None where it
    does not.
    """
    refused, missing = _refusals(options, unknown, use)
    idle = _idle({**options, **dict.fromkeys(unknown, "")}, use)
    found = []
    for name, value in options.items():
        becomes, because = Becomes.WORKS, ""
        if name in refused:
            becomes, because = Becomes.REFUSED, refused[name]
        elif name in idle:
            becomes, because = Becomes.WITHOUT_EFFECT, idle[name]
        found.append(OptionVerdict(name, told(name, value), becomes, because))
    for name in unknown:
        if name in refused:
            found.append(OptionVerdict(name, "", Becomes.REFUSED, refused[name]))
        elif name in idle:
            found.append(OptionVerdict(name, "", Becomes.WITHOUT_EFFECT, idle[name]))
        else:
            found.append(OptionVerdict(name, "", Becomes.WORKS, _UNKNOWN))
    found += [OptionVerdict(name, "", Becomes.REFUSED, why) for name, why in missing.items()]
    return found + _modes(use, mode, output_mode, options)


def _refusals(
    options: Mapping[str, str], unknown: Collection[str], use: Use
) -> tuple[dict[str, str], dict[str, str]]:
    """The options that are refused and those that are missing, each with the reason."""
    refused: dict[str, str] = {}
    missing: dict[str, str] = {}
    for name, value in (*options.items(), *((name, "") for name in unknown)):
        try:
            check_name(name, value)
        except ConnectorError as error:
            refused[name] = _reason(error, name, value)
    stand_ins: dict[str, str] = {}
    while True:
        kept = {name: value for name, value in options.items() if name not in refused} | stand_ins
        try:
            _check(kept, use)
        except MissingOption as error:
            name = _missing(error)
            stand_ins[name] = _MISSING[name]
            if not _stands_for(name, (*refused, *unknown)):
                missing[name] = f"it{_text(error).removeprefix(name)}"
        except ConnectorError as error:
            blamed = _blamed(error, [name for name in kept if name not in stand_ins])
            if blamed is None:
                return refused, {**missing, "options": _text(error)}
            refused[blamed] = _reason(error, blamed, options[blamed])
        else:
            return refused, missing


def _check(options: Mapping[str, str], use: Use) -> None:
    if not use.is_write:
        source_options(options, streaming=use is Use.READ_STREAM)
        return
    chosen = sink_options(options)
    if use is Use.WRITE_STREAM:
        check_streaming_sink(chosen)


def _missing(error: MissingOption) -> str:
    return next(name for name in _MISSING if name in str(error))


def _stands_for(name: str, others: Collection[str]) -> bool:
    """Whether the missing option is one of those of which enough is said."""
    alike = (BOOTSTRAP, BOOTSTRAP_ALIAS) if name == BOOTSTRAP else SELECTIONS
    return any(given.lower() == other.lower() for given in others for other in alike)


def _blamed(error: ConnectorError, names: list[str]) -> str | None:
    """The option whose name an error begins with; it may stand there as pylog spells it. None for
    an error about the options as a whole.
    """
    text = _text(error).lower()
    starts = [
        name
        for name in names
        for start in (name.lower(), own_name(name.lower()))
        if re.match(re.escape(start) + r"(?![a-z])", text)
    ]
    return max(starts, key=len, default=None)


def _text(error: ConnectorError) -> str:
    return str(error).removeprefix(f"[{error.condition}] ")


def _reason(error: ConnectorError, name: str, value: str) -> str:
    """An error's text without the name and the value that stand beside it anyway."""
    text, shown = _text(error), told(name, value)
    for start in (spelled(name.lower()), own_name(name.lower()), name):
        text = text.removeprefix(f"{start}={shown}: ")
    return text


def _idle(options: Mapping[str, str], use: Use) -> dict[str, str]:
    """The options that are taken without effect, each with the reason."""
    found = without_effect(options, sink=use.is_write)
    if use is Use.READ:
        limits = {name.lower() for name in STREAM_ONLY}
        found |= {
            name: "a batch reads everything between its ends"
            for name in options
            if name.lower() in limits
        }
    return found


def _modes(
    use: Use, mode: str | None, output_mode: str | None, options: Mapping[str, str]
) -> list[OptionVerdict]:
    if use is Use.WRITE:
        name = (mode or "error").lower()
        if name == "append":
            return [OptionVerdict("mode", repr(mode), Becomes.WORKS)]
        if name == "overwrite":
            return [_overwrite(options)]
        shown = repr(mode) if mode else ""
        why = "Spark has no such save mode" if name not in _SPARKS_MODES else _NO_INTERFACE
        said = why if mode else f"without one it is 'error', and {why}"
        return [OptionVerdict("mode", shown, Becomes.REFUSED, f"{said}; {APPEND}")]
    if use is Use.WRITE_STREAM and output_mode is not None:
        if output_mode.lower() in ("append", "complete"):
            why_not = _complete_refused(options) if output_mode.lower() == "complete" else None
            if why_not is not None:
                return [OptionVerdict("outputMode", repr(output_mode), Becomes.REFUSED, why_not)]
            return [OptionVerdict("outputMode", repr(output_mode), Becomes.WORKS)]
        why = f"{_NO_INTERFACE}; {FOREACH_BATCH}"
        return [OptionVerdict("outputMode", repr(output_mode), Becomes.REFUSED, why)]
    return []


def _complete_refused(options: Mapping[str, str]) -> str | None:
    """The reason why a streaming write in complete mode is refused; None where it is not."""
    try:
        check_output_mode(sink_options(options), complete=True)
    except OptionNotApplicable as error:
        return _text(error)
    except ConnectorError:
        return None  # told of beside its option
    return None


_SPARKS_MODES: Final = ("error", "errorifexists", "default", "ignore")
_NO_INTERFACE: Final = "Spark has no interface for it in data sources in Python"


def _overwrite(options: Mapping[str, str]) -> OptionVerdict:
    from pylog_connector.datasource import refusal_to_overwrite  # it imports Spark

    once = [value for name, value in options.items() if name.lower() == EXACTLY_ONCE]
    why = refusal_to_overwrite(exactly_once=not once or once[-1].strip().lower() != "false")
    becomes = Becomes.WORKS if why is None else Becomes.REFUSED
    return OptionVerdict("mode", "'overwrite'", becomes, why or "")
