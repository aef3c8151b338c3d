"""`python -m pylog.testing options`: the verdicts on the options of an existing Kafka pipeline."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pylog import errors
from pylog.cli.failures import Form, tell_error
from pylog.plain_text import escaped, escaped_json
from pylog.testing.options import (
    options_of_json,
    options_of_pairs,
    verdicts_of,
    verdicts_of_pipeline,
)
from pylog.testing.pipelines import USES, pipelines_in

if TYPE_CHECKING:
    from pylog_connector.option_verdicts import OptionVerdict

FILE_BYTES_MAX = 4 << 20


@click.group(name="python -m pylog.testing")
def main() -> None:
    """Help for those who try pylog with pipelines that they have."""


@main.command()
@click.argument("what", nargs=-1, required=True)
@click.option("--use", type=click.Choice(USES), help="Of options alone. Default: as they look.")
@click.option("--mode", help="The save mode of a batch write.")
@click.option("--output-mode", help="The output mode of a streaming write.")
@click.option("--json", "as_json", is_flag=True, help="One object for each option.")
@click.pass_context
def options(
    context: click.Context,
    what: tuple[str, ...],
    use: str | None,
    mode: str | None,
    output_mode: str | None,
    as_json: bool,
) -> None:
    """Tell what becomes of each option of a Kafka pipeline under format("pylog").

    WHAT is NAME=VALUE ..., or a file of JSON (an object of options; - is standard input), or files
    in Python, whose uses of format("kafka") are read and not run. Exit status: 0, or 1 where an
    option is refused, or 2 where there is nothing to judge.

    \b
    python -m pylog.testing options kafka.bootstrap.servers=h:9092 subscribe=a groupIdPrefix=x
    python -m pylog.testing options --use write --mode append options.json
    python -m pylog.testing options pipeline.py
    """
    Form.as_json = as_json
    try:
        if all(_is_python(one) for one in what):
            if use or mode or output_mode:
                raise errors.InvalidConfig(
                    "a file in Python says itself how it uses the format; leave out --use, --mode "
                    "and --output-mode"
                )
            refused = _judge_files(what, as_json=as_json)
        else:
            given = _given(what)
            verdicts = verdicts_of(given, use=use, mode=mode, output_mode=output_mode)
            refused = _show(verdicts, as_json=as_json)
    except errors.PylogError as error:
        tell_error(error)
        context.exit(2)
    context.exit(1 if refused else 0)


def _given(what: Sequence[str]) -> dict[str, object]:
    if len(what) == 1 and "=" not in what[0]:
        return options_of_json(_content(what[0]))
    return options_of_pairs(what)


def _is_python(name: str) -> bool:
    return name.endswith(".py") and "=" not in name


def _content(name: str) -> str:
    try:
        if name == "-":
            data = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise errors.InvalidConfig(f"{name} is longer than {FILE_BYTES_MAX} bytes")
        return data.decode()
    except OSError as error:
        raise errors.ResourceNotFound(
            f"{name}: {error.strerror}; name a file, or write NAME=VALUE"
        ) from None
    except UnicodeDecodeError:
        raise errors.InvalidConfig(f"{name} is no UTF-8 text") from None


def _judge_files(names: Sequence[str], *, as_json: bool) -> bool:
    refused, seen = False, 0
    for name in names:
        try:
            pipelines = pipelines_in(_content(name))
        except errors.InvalidConfig as error:
            raise errors.InvalidConfig(f"{name}: {error}") from None
        seen += len(pipelines)
        for pipeline in pipelines:
            where = f"{name}:{pipeline.line}"
            if not as_json:
                more = "; it may have more options than are seen" if pipeline.partial else ""
                click.echo(escaped(f"{where}: {pipeline.use}{more}"))
            verdicts = verdicts_of_pipeline(pipeline)
            refused |= _show(verdicts, as_json=as_json, where=where)
    if not seen:
        raise errors.InvalidConfig(
            f'{", ".join(names)}: there is no chain of calls with .format("kafka") after .read, '
            ".readStream, .write or .writeStream; give the options as NAME=VALUE or as JSON"
        )
    return refused


def _show(verdicts: Sequence[OptionVerdict], *, as_json: bool, where: str | None = None) -> bool:
    """Print them; whether one is a refusal."""
    refused = False
    for one in verdicts:
        refused |= one.becomes.value == "refused"
        if as_json:
            said = {"option": one.option, "becomes": one.becomes.value, "because": one.because}
            told = said if where is None else {"where": where, **said}
            click.echo(escaped_json(json.dumps(told)))
        else:
            click.echo(escaped(str(one) if where is None else f"  {one}"))
    return refused


if __name__ == "__main__":
    main()
