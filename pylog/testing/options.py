"""The options of an existing pipeline: as a user has them, and the verdicts on them.

The verdicts are those of the connector, which comes with the distribution pylog-spark.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from pylog import errors
from pylog.testing.pipelines import Pipeline

if TYPE_CHECKING:
    from pylog_connector.option_verdicts import OptionVerdict

OPTIONS_MAX = 1_000
"""More is no pipeline's, and each is checked with all the others."""


def verdicts_of(
    options: Mapping[str, object],
    *,
    use: str | None = None,
    mode: str | None = None,
    output_mode: str | None = None,
    unknown: Collection[str] = (),
) -> list[OptionVerdict]:
    """See `pylog.testing.check_options`. InvalidConfig for what is no use or no options,
    ResourceNotFound where the connector is not installed.
    """
    try:
        from pylog_connector.option_verdicts import Use, guessed_use, option_verdicts
    except ModuleNotFoundError:
        raise errors.ResourceNotFound(
            "the Spark format is not installed here, so that nothing can be said of its options: "
            "install pylog-spark in place of pylog-client"
        ) from None
    texts = as_texts(options)
    if use is None:
        chosen = guessed_use(texts)
    else:
        try:
            chosen = Use(use)
        except ValueError:
            uses = ", ".join(one.value for one in Use)
            raise errors.InvalidConfig(f"use={use!r}: it must be one of {uses}") from None
    return option_verdicts(texts, chosen, mode=mode, output_mode=output_mode, unknown=unknown)


def verdicts_of_pipeline(pipeline: Pipeline) -> list[OptionVerdict]:
    """The verdicts on what a Python file does with the format; ResourceNotFound as `verdicts_of`. A
    missing option is left out where the file may set it elsewhere.
    """
    unknown = pipeline.unknown
    found = verdicts_of(
        pipeline.options,
        use=pipeline.use,
        mode=pipeline.mode,
        output_mode=pipeline.output_mode,
        unknown=unknown,
    )
    seen = {*pipeline.options, *unknown, "outputMode"}
    seen |= {"mode"} if pipeline.mode_is_known else set()
    unseen_is_missing = not pipeline.partial
    return [
        one for one in found if one.option in seen or (unseen_is_missing and one.option != "mode")
    ]


def as_texts(options: Mapping[str, object]) -> dict[str, str]:
    """Options as Spark hands them on: texts, and true and false in small letters. None, which Spark
    drops, is left out.
    """
    if len(options) > OPTIONS_MAX:
        raise errors.InvalidConfig(
            f"there are {len(options)} options: at most {OPTIONS_MAX} are checked at a time"
        )
    texts = {}
    for name, value in options.items():
        if not isinstance(name, str) or not name:
            raise errors.InvalidConfig(f"option {name!r}: a name must be a text, and not empty")
        if isinstance(value, bool):
            texts[name] = str(value).lower()
        elif isinstance(value, int | float | str):
            texts[name] = str(value)
        elif value is not None:
            raise errors.InvalidConfig(
                f"option {name}: its value must be a text, a number, true or false, and is "
                f"{type(value).__name__}"
            )
    return texts


def options_of_json(text: str) -> dict[str, object]:
    """The options in a JSON object; InvalidConfig for anything else."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise errors.InvalidConfig(f"this is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise errors.InvalidConfig(
            f'write an object of options, such as {{"subscribe": "a"}}, not {text.strip()[:40]!r}'
        )
    return found


def options_of_pairs(pairs: Iterable[str]) -> dict[str, object]:
    """The options in texts `name=value`; InvalidConfig for a text without `=` and a name that comes
    twice with two values.
    """
    found: dict[str, object] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise errors.InvalidConfig(f"{pair!r} is no option; write name=value")
        if found.setdefault(name, value) != value:
            raise errors.InvalidConfig(f"option {name} is given twice; write it once")
    return found
