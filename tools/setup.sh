#!/usr/bin/env bash
# `make setup`: .venv with the pinned dependencies and the package, and Java 17 or 21.
# Says what it installs. Does nothing when all is there already.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

apt_update() { [ -n "${updated:-}" ] || { apt-get update -q >/dev/null; updated=1; }; }
apt_install() {
  [ "$(id -u)" = 0 ] || fail "$1 is missing: install it (on Debian: apt-get install $2), or run this as root"
  command -v apt-get >/dev/null || fail "$1 is missing: install it with this system's package manager"
  say "installing $2 (for $1)"
  apt_update
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$2" >/dev/null
}

python=${PYTHON:-python3}
"$python" - <<'PY' || fail "Python 3.11, 3.12 or 3.13 is needed; name one with PYTHON=..."
import sys
sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PY

java_version() { "$1" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -1; }
java_fits() { v=$(java_version "$1" 2>/dev/null || true); [ "$v" = 17 ] || [ "$v" = 21 ]; }
if ! { [ -n "${JAVA_HOME:-}" ] && java_fits "$JAVA_HOME/bin/java"; } && ! java_fits java; then
  # Some Java packages want this folder, which small images lack.
  [ "$(id -u)" = 0 ] && mkdir -p /usr/share/man/man1
  java=17
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt_update
    # Debian 13 has only that. Not by a pipe, which the end of grep would break.
    [[ $(apt-cache policy openjdk-17-jre-headless) == *'Candidate: '[0-9]* ]] || java=21
  fi
  apt_install "Java $java" "openjdk-$java-jre-headless"
fi
# Spark's own scripts call ps.
command -v ps >/dev/null || apt_install "the command ps" procps

stamp=.venv/.complete
wanted=$(cat requirements.lock pyproject.toml tools/setup.sh | cksum; "$python" --version)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
  exit 0
fi
if [ ! -x .venv/bin/python ]; then
  "$python" -c 'import ensurepip, venv' 2>/dev/null || apt_install "Python's venv" "$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
  say "making the virtual environment .venv"
  "$python" -m venv .venv
fi
say "installing $(grep -c == requirements.lock) pinned Python packages into .venv"
pip() { .venv/bin/python -m pip "$1" -q --disable-pip-version-check --no-input "${@:2}"; }
# The build tools first: two packages come as sources, and are built with these and no others.
pip install $(grep -E '^(setuptools|wheel)==' requirements.lock)
pip install --no-build-isolation --use-pep517 -r requirements.lock
say "installing pylog-spark itself, editable"
pip install --no-deps --no-build-isolation -e .
# Compiled once here, so that no broker compiles at its start.
env -u PYTHONDONTWRITEBYTECODE .venv/bin/python -m compileall -q pylog broker connector pyspark_pylog
.venv/bin/python -c 'from pylog.records import kernels; print(f"setup: compiled the record kernels in {kernels.warm():.0f} ms")'
.venv/bin/python -c 'import pylog_broker.storage.cleaner.kernels'
printf '%s' "$wanted" > "$stamp"
