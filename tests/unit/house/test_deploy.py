"""The files that run pylog in containers: nothing here is started, everything is looked at.

Manifests are checked against Kubernetes' own schemas, settings by the driver's own checks, and what
one file says of another against that file.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from pylog_broker.spark.checks import open_doors, problems
from pylog_broker.spark.settings import SparkSettings, parse_settings

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
KUBERNETES = ("1.30", "1.34", "1.37")
MANIFESTS = list(yaml.safe_load_all((DEPLOY / "kubernetes/pylog.yml").read_text()))
CONFIGURATION = next(m["data"] for m in MANIFESTS if m["kind"] == "ConfigMap")
EXECUTOR = yaml.safe_load(CONFIGURATION["executor.yml"])
COMPOSE = yaml.safe_load((DEPLOY / "compose.yml").read_text())
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [manifest for manifest in MANIFESTS if manifest["kind"] == kind]


def spark_conf(text: str) -> dict[str, str]:
    lines = (line.split(maxsplit=1) for line in text.splitlines())
    return dict(line for line in lines if line and not line[0].startswith("#"))


CONTAINER = spark_conf((DEPLOY / "container.conf").read_text())
CLUSTER = spark_conf(CONFIGURATION["cluster.conf"])


def settings_of(conf: dict[str, str]) -> SparkSettings:
    ours = {key: value for key, value in conf.items() if key.startswith("spark.pylog.")}
    return parse_settings(ours, submit_dir="/", master=conf["spark.master"])


# ---- Kubernetes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize(
    "manifest", [*MANIFESTS, EXECUTOR], ids=lambda m: f"{m['kind']}-{m['metadata'].get('name')}"
)
def test_manifests_match_the_schemas_of_kubernetes(manifest: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(manifest, version, strict=True)


def test_the_schemas_find_mistakes() -> None:
    (wrong,) = of_kind("StatefulSet")
    wrong = json.loads(json.dumps(wrong))
    wrong["spec"]["replicas"] = "one"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, KUBERNETES[-1], strict=True)


def test_everything_is_in_one_namespace_and_what_is_named_is_there() -> None:
    (namespace,) = of_kind("Namespace")
    name = namespace["metadata"]["name"]
    others = [m for m in MANIFESTS if m["kind"] != "Namespace"]
    assert {m["metadata"]["namespace"] for m in others} == {name}
    (driver,) = of_kind("StatefulSet")
    template = driver["spec"]["template"]
    labels = template["metadata"]["labels"]
    services = {m["metadata"]["name"]: m["spec"] for m in of_kind("Service")}
    assert driver["spec"]["selector"]["matchLabels"] == labels
    assert {json.dumps(spec["selector"]) for spec in services.values()} == {json.dumps(labels)}
    (account,) = of_kind("ServiceAccount")
    assert template["spec"]["serviceAccountName"] == account["metadata"]["name"]
    (binding,), (role,) = of_kind("RoleBinding"), of_kind("Role")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [s["name"] for s in binding["subjects"]] == [account["metadata"]["name"]]
    (container,) = template["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {p["name"]: p["port"] for p in services["pylog-driver"]["ports"]}
    assert container["image"] == CLUSTER["spark.kubernetes.container.image"]
    claims = {claim["metadata"]["name"] for claim in driver["spec"]["volumeClaimTemplates"]}
    there = claims | {volume["name"] for volume in template["spec"]["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == there


def test_the_settings_on_kubernetes_are_those_that_brokers_need() -> None:
    settings = settings_of(CLUSTER)
    assert problems(CLUSTER, brokers=settings.brokers) == []
    assert open_doors(CLUSTER) == []
    (driver,) = of_kind("StatefulSet")
    name, namespace = driver["metadata"]["name"], driver["metadata"]["namespace"]
    address = f"{driver['spec']['serviceName']}.{namespace}.svc"
    assert CLUSTER["spark.driver.host"] == settings.advertised_host == address
    assert CLUSTER["spark.kubernetes.driver.pod.name"] == f"{name}-0"
    assert CLUSTER["spark.kubernetes.namespace"] == namespace
    assert int(CLUSTER["spark.executor.instances"]) == settings.brokers
    assert int(CLUSTER["spark.kubernetes.allocation.batch.size"]) >= settings.brokers
    (container,) = driver["spec"]["template"]["spec"]["containers"]
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert settings.data_dir in mounts
    template = Path(CLUSTER["spark.kubernetes.executor.podTemplateFile"])
    assert (str(template.parent) in mounts, template.name in CONFIGURATION) == (True, True)
    assert container["args"][2] == f"{template.parent}/cluster.conf"
    for spark, port in (("spark.driver.port", 7078), ("spark.blockManager.port", 7079)):
        assert int(CLUSTER[spark]) == port
        assert port in {each["containerPort"] for each in container["ports"]}
    assert {settings.listen, CLUSTER["spark.pylog.metrics.listen"]} == {
        "0.0.0.0:9092", "0.0.0.0:9500",
    }  # fmt: skip


def test_executors_stand_apart_on_disks_that_outlive_them() -> None:
    spec = EXECUTOR["spec"]
    assert CLUSTER["spark.kubernetes.executor.podTemplateContainerName"] in {
        container["name"] for container in spec["containers"]
    }
    (term,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    labels = EXECUTOR["metadata"]["labels"]
    assert term["labelSelector"]["matchLabels"] == labels
    (budget,) = of_kind("PodDisruptionBudget")
    assert budget["spec"]["selector"]["matchLabels"] == labels
    assert budget["spec"]["minAvailable"] == settings_of(CLUSTER).brokers - 1
    host_path = "spark.kubernetes.executor.volumes.hostPath.data"
    data = settings_of(CLUSTER).data_dir
    assert CLUSTER[f"{host_path}.mount.path"] == CLUSTER[f"{host_path}.options.path"] == data
    (policy,) = of_kind("NetworkPolicy")
    ours = policy["spec"]["podSelector"]["matchLabels"]
    assert ours.items() <= labels.items()


# ---- the image -----------------------------------------------------------------------------------


def test_what_the_image_copies_is_there_and_its_user_is_the_pods_user() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.M)
    for name in (name for line in copied for name in line.split() if name != "."):
        assert (ROOT / name).exists(), name
    (user,) = re.findall(r"^USER (\d+)$", DOCKERFILE, re.M)
    assert f"useradd --uid {user} " in DOCKERFILE
    (driver,) = of_kind("StatefulSet")
    for spec in (driver["spec"]["template"]["spec"], EXECUTOR["spec"]):
        assert spec["securityContext"]["runAsUser"] == int(user)
    built = re.search(r"hatchling==\S+", (ROOT / "pyproject.toml").read_text())
    assert built is not None
    assert built.group().rstrip('"]') in DOCKERFILE
    locked = re.search(r"^build==\S+", (ROOT / "requirements.lock").read_text(), re.M)
    assert locked is not None
    assert locked.group() in DOCKERFILE
    last = json.loads(re.findall(r"^CMD (.+)$", DOCKERFILE, re.M)[-1])
    for name in last[2:]:
        assert (DEPLOY / Path(name).name).exists() or (ROOT / Path(name).name).exists(), name


def entered(tmp_path: Path, *arguments: str, **variables: str) -> list[str]:
    """The command that the entry point runs, when `java` prints how it was called."""
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\nfor word in "$@"; do echo "$word"; done\n')
    java.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [DEPLOY / "entrypoint.sh", *arguments],
        env={"PATH": path, **variables},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_the_image_runs_a_command_as_it_stands(tmp_path: Path) -> None:
    assert entered(tmp_path, "printf", "%s|", "a b", "c") == ["a b|c|"]


def test_the_image_is_an_executor_when_spark_says_so(tmp_path: Path) -> None:
    variables = {
        "SPARK_HOME": "/spark",
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver:7078",
        "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_EXECUTOR_MEMORY": "1024m",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "pylog-exec-3",
    }
    options = {f"SPARK_JAVA_OPT_{number}": f"-Dn={number} x" for number in (0, 1, 10, 2)}
    assert entered(tmp_path, "executor", **variables, **options) == [
        "-Dn=0 x", "-Dn=1 x", "-Dn=2 x", "-Dn=10 x", "-Xms1024m", "-Xmx1024m",
        "-cp", "/spark/jars/*",
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        "--driver-url", "spark://CoarseGrainedScheduler@driver:7078",
        "--executor-id", "3", "--cores", "2", "--app-id", "spark-1", "--hostname", "10.0.0.7",
        "--resourceProfileId", "0", "--podName", "pylog-exec-3",
    ]  # fmt: skip


# ---- compose -------------------------------------------------------------------------------------


def test_the_settings_in_a_container_are_those_that_brokers_need() -> None:
    settings = settings_of(CONTAINER)
    assert problems(CONTAINER, brokers=settings.brokers) == []
    assert settings.advertised_host == COMPOSE["services"]["pylog"]["hostname"]
    volumes = COMPOSE["services"]["pylog"]["volumes"]
    assert [volume.partition(":")[2] for volume in volumes] == [settings.data_dir]
    local = spark_conf((ROOT / "spark-conf/local.conf").read_text())
    ours = {key: value for key, value in CONTAINER.items() if not key.startswith("spark.pylog.")}
    same = {key for key in ours if "extraJavaOptions" not in key}
    assert {key: local.get(key) for key in same} == {key: ours[key] for key in same}


def test_what_compose_mounts_and_names_is_there() -> None:
    services = COMPOSE["services"]
    named = set(COMPOSE["volumes"])
    for service in services.values():
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in named, volume
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert set(service.get("depends_on", ())) <= set(services)
    build = services["pylog"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).samefile(DEPLOY / "Dockerfile")
    assert services["pylog"]["image"] == CLUSTER["spark.kubernetes.container.image"]


def test_prometheus_and_grafana_find_what_they_show() -> None:
    prometheus = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    (job,) = prometheus["scrape_configs"]
    (discovery,) = job["http_sd_configs"]
    port = CONTAINER["spark.pylog.metrics.listen"].rpartition(":")[2]
    assert discovery["url"] == f"http://pylog:{port}/targets"
    rules = (ROOT / "monitoring/alerts.yml").read_text()
    assert f'job="{job["job_name"]}"' in rules
    mounted = {v.split(":")[1] for v in COMPOSE["services"]["prometheus"]["volumes"]}
    assert {f"/etc/prometheus/{name}" for name in prometheus["rule_files"]} <= mounted
    grafana = COMPOSE["services"]["grafana"]
    (source,) = yaml.safe_load((DEPLOY / "grafana/datasource.yml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((DEPLOY / "grafana/dashboards.yml").read_text())["providers"]
    shown = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert str(Path(shown).parent) == provider["options"]["path"]
    assert shown in {volume.split(":")[1] for volume in grafana["volumes"]}
    variables = json.loads((ROOT / "monitoring/grafana.json").read_text())["templating"]["list"]
    assert source["type"] in {v["query"] for v in variables if v["type"] == "datasource"}
