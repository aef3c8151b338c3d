"""Apache Kafka's own jars, for the tests that compare with it; nothing of them is kept here.

    .venv/bin/python -m tools.kafka_jars

Prints the folder. It is `$KAFKA_LIBS` where that is set (the `libs` folder of any Kafka of the
version below or a later one), else a folder of the user's cache that Maven fills at the first use.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

VERSION: Final = "4.2.0"
_MAVEN_S: Final = 580
_ARTIFACTS: Final = (
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.slf4j", "slf4j-nop", "1.7.36"),
)
_LOGGER: Final = (("org.slf4j", "slf4j-simple", "1.7.36"),)
SPARK_CONNECTOR: Final = "4.2.0"
"""The newest that Spark has published; it runs in later Sparks of the same major version, too."""
_CONNECTOR: Final = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_CONNECTOR),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", SPARK_CONNECTOR),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)
"""Everything that Spark does not bring itself."""


class JarsMissing(Exception):
    """Kafka's jars are neither here nor to be had."""


def libs() -> Path:
    """The folder with Kafka's jars, filled if need be; JarsMissing says what was tried."""
    given = os.environ.get("KAFKA_LIBS")
    if given:
        return _checked(Path(given), "KAFKA_LIBS names it")
    folder = _cache() / f"kafka-{VERSION}"
    if not folder.is_dir():
        _download(folder, _ARTIFACTS)
    return _checked(folder, "the cache")


def logging_classpath() -> str:
    """A class path with which a Kafka process writes its log to stderr; `libs` alone says nothing.

    Raises JarsMissing.
    """
    folder = _cache() / "slf4j-simple-1.7.36"
    if not folder.is_dir():
        _download(folder, _LOGGER)
    return f"{folder}/*:{libs()}/*"


def present() -> bool:
    """Whether `libs` has the jars without a download."""
    return bool(os.environ.get("KAFKA_LIBS")) or (_cache() / f"kafka-{VERSION}").is_dir()


def spark_connector() -> list[Path]:
    """The jars of Spark's Kafka connector, for `spark.jars`. Raises JarsMissing."""
    folder = _cache() / f"spark-kafka-{SPARK_CONNECTOR}"
    if not folder.is_dir():
        _download(folder, _CONNECTOR, alone=True)
    return sorted(folder.glob("*.jar"))


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pylog"


def _checked(folder: Path, why: str) -> Path:
    if not list(folder.glob("kafka-clients-*.jar")):
        raise JarsMissing(f"{folder} ({why}) holds no kafka-clients-*.jar")
    return folder


def _download(
    folder: Path, artifacts: Iterable[tuple[str, str, str]], *, alone: bool = False
) -> None:
    """`alone`: without what they depend on."""
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsMissing("mvn is not installed; install Maven, or set KAFKA_LIBS")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        pom = Path(scratch) / "pom.xml"
        pom.write_text(_pom(artifacts, alone), encoding="utf-8")
        command = [
            maven, "-q", "-B", "-f", str(pom),
            "dependency:copy-dependencies", f"-DoutputDirectory={scratch}/jars",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=_MAVEN_S)
        if done.returncode:
            raise JarsMissing(f"mvn ended with {done.returncode}:\n{done.stdout[-2000:]}")
        (Path(scratch) / "jars").rename(folder)


def _pom(artifacts: Iterable[tuple[str, str, str]], alone: bool) -> str:
    every = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
    without = f"<exclusions>{every}</exclusions>" if alone else ""
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version>{without}</dependency>"
        for group, name, version in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>pylog</groupId><artifactId>kafka-jars</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>\n"
    )


def main() -> None:
    """Print the folder, or say on stderr why there is none."""
    try:
        print(libs())
    except JarsMissing as error:
        sys.exit(f"kafka_jars: {error}")


if __name__ == "__main__":
    main()
