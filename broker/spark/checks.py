"""The Spark settings that a broker's life depends on, each with its reason.

Pure. `problems` lists what is wrong with a configuration; the driver refuses to start on any, with
the reason, because each of them ends in brokers that are not restarted, restarted twice, or killed.
`open_doors` lists what Spark offers to strangers under it; the driver tells, and starts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pylog_broker.process.addresses import Address

# "Practically unlimited" and still an Int for Spark.
FAILURES_MIN: Final = 1_000_000

_LOCAL: Final = re.compile(r"local(\[(?P<threads>\d+|\*)(,(?P<failures>\d+))?\])?")
_LOCAL_CLUSTER: Final = re.compile(
    r"local-cluster\[\s*(?P<executors>\d+)\s*,\s*(?P<cores>\d+)\s*,\s*(?P<memory>\d+)\s*\]"
)


@dataclass(frozen=True, slots=True)
class Problem:
    """A setting as it is, as it must be, and why."""

    key: str
    value: str
    wanted: str
    reason: str

    def __str__(self) -> str:
        return f"{self.key}={self.value or '(not set)'}: set it to {self.wanted}; {self.reason}"


def problems(conf: Mapping[str, str], *, brokers: int) -> list[Problem]:
    """The changes without which brokers may not run under `conf`; empty when it is fine."""
    found: list[Problem] = []
    master = conf.get("spark.master", "")
    found += _slots(conf, master, brokers)
    found += _failures(conf, master, brokers)
    for key, reason in (
        ("spark.speculation", "a speculative copy of a task would be a second broker of one id"),
        (
            "spark.dynamicAllocation.enabled",
            "Spark would take executors away from brokers that look idle",
        ),
        (
            "spark.python.worker.reuse",
            "a broker's Python process must end with its task, not serve the next one",
        ),
    ):
        default = "true" if key == "spark.python.worker.reuse" else "false"
        if conf.get(key, default).lower() != "false":
            found.append(Problem(key, conf.get(key, ""), "false", reason))
    if "spark.executor.pyspark.memory" in conf:
        found.append(
            Problem(
                "spark.executor.pyspark.memory",
                conf["spark.executor.pyspark.memory"],
                "nothing (remove it)",
                "it is an address-space limit, under which a broker's mapped memory fails",
            )
        )
    return found


def open_doors(conf: Mapping[str, str]) -> list[str]:
    """The rights that Spark gives to everybody who reaches its ports, each with the setting against
    it; none where the ports are on loopback, as pylog's own.
    """
    bound = conf.get("spark.driver.bindAddress", conf.get("spark.driver.host", ""))
    if conf.get("spark.master", "").startswith("local") and Address(bound, 1).is_loopback:
        return []
    found = []
    if not _is_true(conf, "spark.authenticate", default=False):
        found.append(
            "spark.authenticate is not set: whoever reaches the ports of Spark's driver or of its "
            "executors can read what they tell each other, the cluster's secret too, and run code "
            "as their user; set spark.authenticate=true and spark.network.crypto.enabled=true, "
            "and where Spark makes no secret (standalone) spark.authenticate.secret on master, "
            "workers and here"
        )
    if _is_true(conf, "spark.ui.enabled", default=True) and not conf.get("spark.ui.filters"):
        ends = (
            ", and its kill links end the brokers (spark.ui.killEnabled=false takes them away)"
            if _is_true(conf, "spark.ui.killEnabled", default=True)
            else ""
        )
        found.append(
            "the Spark UI asks nobody for a password: it shows hosts, paths, settings, logs and "
            f"thread dumps of driver and executors to whoever reaches its port{ends}; set "
            "spark.ui.enabled=false, or spark.ui.filters to a filter that authenticates, or keep "
            "strangers from the port"
        )
    return found


def _is_true(conf: Mapping[str, str], key: str, *, default: bool) -> bool:
    return conf.get(key, str(default)).strip().lower() == "true"


def master_host(master: str) -> str:
    """The machine of a standalone master; empty for everything else."""
    standalone = re.fullmatch(r"spark://(\[[^]]+\]|[^:/,]+):\d+.*", master)
    return standalone[1].strip("[]") if standalone is not None else ""


def gateway_problems(
    master: str, listen: Address, advertised: str | None, *, master_is_here: bool
) -> list[Problem]:
    """The problems for which brokers on other hosts could not reach the gateway."""
    if master.startswith("local") or master_is_here:
        return []
    found = []
    if listen.is_loopback:
        found.append(
            Problem(
                "spark.pylog.listen",
                str(listen),
                f"0.0.0.0:{listen.port}, with spark.pylog.advertised.host and "
                "spark.pylog.allow.plaintext=true",
                f"brokers run on other hosts (master {master}), which cannot reach this one's "
                "loopback",
            )
        )
    if advertised is not None and Address(advertised, 1).is_loopback:
        found.append(
            Problem(
                "spark.pylog.advertised.host",
                advertised,
                "this host's name as the brokers' hosts know it",
                "to everybody else it means another machine",
            )
        )
    return found


def _slots(conf: Mapping[str, str], master: str, brokers: int) -> list[Problem]:
    """One broker per executor: `spark.task.cpus` = executor cores; enough of them."""
    local = _LOCAL.fullmatch(master)
    if local is not None:
        threads = local["threads"] or "1"
        if threads != "*" and int(threads) < brokers:
            return [
                Problem(
                    "spark.master",
                    master,
                    f"local[{brokers},{FAILURES_MIN}] or more threads",
                    f"{brokers} brokers need {brokers} task slots at once",
                )
            ]
        return []
    cluster = _LOCAL_CLUSTER.fullmatch(master)
    cores = cluster["cores"] if cluster else conf.get("spark.executor.cores", "1")
    task_cpus = conf.get("spark.task.cpus", "1")
    found = []
    if task_cpus != cores:
        found.append(
            Problem(
                "spark.task.cpus",
                conf.get("spark.task.cpus", ""),
                cores,
                "it must equal the executor's cores, so that each executor hosts one broker",
            )
        )
    if cluster is not None and int(cluster["executors"]) < brokers:
        found.append(
            Problem(
                "spark.master",
                master,
                f"local-cluster[{brokers},{cores},{cluster['memory']}]",
                f"{brokers} brokers need {brokers} executors",
            )
        )
    return found


def _failures(conf: Mapping[str, str], master: str, brokers: int) -> list[Problem]:
    """Spark must go on restarting brokers for as long as the application lives."""
    found = []
    local = _LOCAL.fullmatch(master)
    if local is not None:
        failures, threads = local["failures"], local["threads"] or "1"
        if threads != "*" and int(threads) < brokers:
            return []  # `_slots` says already what to write, with the failures
        if failures is None or int(failures) < FAILURES_MIN:
            found.append(
                Problem(
                    "spark.master",
                    master,
                    f"local[{threads},{FAILURES_MIN}]",
                    "plain local[N] allows one task failure, whatever spark.task.maxFailures says",
                )
            )
        return found
    for key, default, reason in (
        ("spark.task.maxFailures", "4", "the job ends after that many restarts of one broker"),
        (
            "spark.executor.maxNumFailures",
            "",
            "on YARN and Kubernetes the application ends after that many lost executors",
        ),
    ):
        value = conf.get(key, default)
        if key == "spark.executor.maxNumFailures" and master.startswith(
            ("spark:", "local-cluster")
        ):
            continue
        if not value.isdigit() or int(value) < FAILURES_MIN:
            found.append(Problem(key, conf.get(key, ""), str(FAILURES_MIN), reason))
    if (
        master.startswith(("spark:", "local-cluster"))
        and conf.get("spark.deploy.maxExecutorRetries") != "-1"
    ):
        found.append(
            Problem(
                "spark.deploy.maxExecutorRetries",
                conf.get("spark.deploy.maxExecutorRetries", ""),
                "-1",
                "a standalone master gives an application up after ten lost executors",
            )
        )
    return found
