#!/usr/bin/env bash
# What the image runs: a command as it stands, or, for `executor`, a Spark executor. Spark on
# Kubernetes starts executor pods with that argument and with the variables read below.
set -euo pipefail

if [ "${1:-}" != executor ]; then
  exec "$@"
fi

options=()
while IFS='=' read -r name value; do
  case "$name" in
    SPARK_JAVA_OPT_*) options+=("$value") ;;
  esac
done < <(env | sort -V)

exec java "${options[@]}" \
  "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
  -cp "$SPARK_HOME/jars/*${SPARK_CLASSPATH:+:$SPARK_CLASSPATH}" \
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" \
  --executor-id "$SPARK_EXECUTOR_ID" \
  --cores "$SPARK_EXECUTOR_CORES" \
  --app-id "$SPARK_APPLICATION_ID" \
  --hostname "$SPARK_EXECUTOR_POD_IP" \
  --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
  --podName "$SPARK_EXECUTOR_POD_NAME"
