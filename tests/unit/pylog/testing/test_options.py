from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from pylog import errors
from pylog.testing import check_options
from pylog.testing.__main__ import main
from pylog.testing.options import as_texts, options_of_json, options_of_pairs

READ = ["kafka.bootstrap.servers=h:1", "subscribe=a"]


def run(*arguments: str, text: str | None = None) -> tuple[int, list[str], str]:
    result = CliRunner().invoke(main, ["options", *arguments], input=text)
    return result.exit_code, result.stdout.splitlines(), result.stderr


def test_check_options_tells_each_in_a_line() -> None:
    options = {"kafka.bootstrap.servers": "h:1", "subscribe": "a", "kafka.session.timeout.ms": 9}
    assert [str(one) for one in check_options(options)] == [
        "works: kafka.bootstrap.servers='h:1'",
        "works: subscribe='a'",
        "taken without effect: kafka.session.timeout.ms='9': Spark, and no group, shares "
        "partitions among tasks",
    ]
    with pytest.raises(errors.InvalidConfig, match="readStream"):
        check_options(options, use="stream")


def test_options_are_texts_as_spark_makes_them() -> None:
    given = {"a": True, "b": 1, "c": None, "d": 0.5, "e": "E"}
    assert as_texts(given) == {"a": "true", "b": "1", "d": "0.5", "e": "E"}
    for wrong in ({"a": []}, {"": "x"}, {str(n): "x" for n in range(1_001)}):
        with pytest.raises(errors.InvalidConfig):
            as_texts(wrong)


@pytest.mark.parametrize("text", ["", "{", "[]", "1", "[" * 100_000])
def test_wrong_json(text: str) -> None:
    with pytest.raises(errors.InvalidConfig):
        options_of_json(text)


def test_pairs() -> None:
    assert options_of_pairs(["a=b=c", "d=", "a=b=c"]) == {"a": "b=c", "d": ""}
    for wrong in (["a"], ["=a"], ["a=1", "a=2"]):
        with pytest.raises(errors.InvalidConfig):
            options_of_pairs(wrong)


def test_the_exit_status_says_whether_something_is_refused() -> None:
    assert run(*READ)[0] == 0
    status, lines, _ = run(*READ, "kafka.auto.offset.reset=latest")
    assert (status, len(lines)) == (1, 3)
    assert lines[2].startswith("refused: kafka.auto.offset.reset='latest'")
    assert run("kafka.bootstrap.servers=h:1", "topic=a", "--mode", "append")[0] == 0
    assert run("kafka.bootstrap.servers=h:1", "topic=a")[0] == 1


def test_a_file_of_json_and_standard_input(tmp_path: Path) -> None:
    text = json.dumps({"kafka.bootstrap.servers": "h:1", "subscribe": "a"})
    (tmp_path / "options.json").write_text(text)
    assert run(str(tmp_path / "options.json")) == run("-", text=text) == run(*READ)
    status, lines, _ = run("--json", "-", text=text)
    assert status == 0
    assert json.loads(lines[0]) == {
        "option": "kafka.bootstrap.servers",
        "becomes": "works",
        "because": "",
    }


def test_files_in_python(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.py"
    path.write_text(
        'spark.readStream.format("kafka").option("kafka.bootstrap.servers", s).load()\n'
        'f.write.mode(m).format("kafka").options(**common).option("topic", "a b").save()\n'
        'f.write.format("kafka").options(**common).save()\n'
    )
    status, lines, _ = run(str(path))
    assert status == 1
    assert [line.partition(": ")[0].strip() for line in lines] == [
        f"{path}:1", "works", "refused", f"{path}:2", "refused", f"{path}:3", "refused",
    ]  # fmt: skip
    assert "subscribe" in lines[2]
    assert "topic='a b'" in lines[4]
    assert "mode" in lines[6]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.json"], "No such file"),
        (["nowhere.py"], "No such file"),
        (["a", "b"], "write name=value"),
        (["/"], "Is a directory"),
        (["empty.py"], "no chain of calls"),
        (["empty.py", "--use", "read"], "leave out --use"),
        (["latin.py"], "no UTF-8"),
        (["broken.py"], "this is no Python"),
    ],
)
def test_what_cannot_be_judged(
    arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.py").write_text("x = 1\n")
    Path("latin.py").write_bytes(b"\xe9")
    Path("broken.py").write_text("def")
    status, lines, told = run(*arguments)
    assert (status, lines) == (2, [])
    assert told.startswith("pylog: ")
    assert words in told


def test_without_the_connector_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pylog_connector.option_verdicts", None)
    with pytest.raises(errors.ResourceNotFound, match="install pylog-spark"):
        check_options({"subscribe": "a"})
