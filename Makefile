.DEFAULT_GOAL := help
SHELL := /bin/bash
PY := .venv/bin/python
# Without its bytecode pytest rewrites every test file's assertions anew: 3 s.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(PY) -m pytest -q
SEED ?=
N ?= 200

.PHONY: help setup run test unit native-off brokers storage-model storage-kills policy-changes clock-jumps slow-follower cut-brokers sim variants variants-beside integration spark kills disks groups shares transactions exactly-once flood overload kafka-tools go-client console-browser notebook lint proto docs site bench peers audit wheel

help: ## what there is
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | sort

setup: ## .venv with the pinned dependencies, Java 17 or 21
	@tools/setup.sh

run: setup ## three brokers by spark-submit, a real data set through them, then serve; ONCE=1 ends there
	@$(PY) tools/run.py $(if $(ONCE),--once)

test: setup unit brokers spark notebook ## everything but lint, bench, the long kills and disks

brokers: setup ## integration, and the simulator in what time the broker processes leave
	@$(MAKE) --no-print-directory -j2 -O variants-beside integration

variants-beside:
	@nice -n 19 $(MAKE) --no-print-directory variants

unit: setup ## pure logic, in three processes, for some tests wait; about a minute
	$(PYTEST) -n 3 --dist worksteal tests/unit tests/transcripts tests/golden
	PYLOG_NATIVE=off $(PYTEST) -n 3 tests/unit/pylog/records/test_builder.py tests/unit/pylog/records/test_columnar.py \
	  tests/unit/pylog/records/test_arrow_encoder.py tests/unit/pylog/records/test_golden.py

native-off: setup ## what encodes and decodes, without native addresses (PYLOG_NATIVE=off)
	PYLOG_NATIVE=off $(PYTEST) -n 3 tests/unit/pylog/records tests/unit/pylog/client \
	  tests/unit/broker/storage/cleaner

sim: setup ## the simulator: SEED= first seed (default: fresh), N= how many
	$(PY) -m tests.sim $(if $(SEED),--seed $(SEED)) --count $(N)

variants: setup ## the simulator: 200 seeds, each planted bug caught, equal traces
	$(PYTEST) -m sim tests/sim

integration: setup ## real broker processes; two files at a time, which mostly wait
	$(PYTEST) -m integration -n 2 --dist loadfile --no-loadscope-reorder tests/integration

spark: setup ## real Spark
	$(PYTEST) -m spark tests/spark

kills: setup ## twenty kills and pauses under load, with the flights
	$(PY) -m tests.verify.kills --flights --acks 100000

disks: setup ## 60 full disks and 60 failing ones under load, on small ext4 file systems; needs root
	$(PY) -m tests.verify.disks --fills 60 --faults 60 $(if $(SEED),--seed $(SEED))

groups: setup ## 300 rebalances of groups of both protocols; members stall, stop and are killed, coordinators too
	$(PY) -m tests.verify.groups --rebalances 300 $(if $(SEED),--seed $(SEED))

shares: setup ## 100,000 records over 10 share consumers; processes and brokers are killed and stopped
	$(PY) -m tests.verify.shares --records 100000 $(if $(SEED),--seed $(SEED))

transactions: setup ## 200 kills of workers, brokers and coordinators under transactions that copy; 100,000 that append to lists
	$(PY) -m tests.verify.transactions --kills 200 $(if $(SEED),--seed $(SEED))
	$(PY) -m tests.verify.transaction_lists --transactions 100000 --kills 100 $(if $(SEED),--seed $(SEED))

exactly-once: setup ## 100 kills of driver, tasks, brokers and coordinator under Spark queries that copy a topic, half of them placed
	$(PY) -m tests.verify.exactly_once --kills 60 $(if $(SEED),--seed $(SEED))
	$(PY) -m tests.verify.exactly_once --kills 40 --stateful $(if $(SEED),--seed $(SEED))

kafka-tools: setup ## Kafka's own dump tool and a Kafka broker over what pylog wrote; needs Java 17 and Maven (or KAFKA_LIBS)
	$(PY) -m tests.verify.kafka_tools

storage-model: setup ## 10,000 random lives of a log against plain Python, 10,000 flipped bits, 1,000 changes of policy
	STORAGE_MODEL_EXAMPLES=10000 STORAGE_ROT_FLIPS=10000 STORAGE_POLICY_CHANGES=1000 $(PYTEST) \
	  tests/unit/broker/storage/log/test_log_model.py tests/unit/broker/storage/log/test_bit_rot.py \
	  tests/unit/broker/storage/cleaner/test_policy_changes.py

flood: setup ## 2,000 idle connections and 20,000 attempts under load, with 1,024 files
	$(PY) -m tests.verify.flood

overload: setup ## 30 parts of an overload by 200 producers and stopped readers, for the brokers' memory; half an hour
	$(PY) -m tests.verify.overload

storage-kills: setup ## 1,000 kills of a storage process, 500 inside the cleaner, 200 while records are deleted
	$(PY) -m tests.verify.storage_kills --acks 1000 --cleaner 500 --deletions 200

policy-changes: setup ## 300 changes of topics' policies on three brokers that are written, cleaned, read and killed
	$(PY) -m tests.verify.policy_changes --changes 300 $(if $(SEED),--seed $(SEED))

clock-jumps: setup ## 100 jumps of the clocks of brokers and controller under load; needs libfaketime
	$(PY) -m tests.verify.clock_jumps --jumps 100 $(if $(SEED),--seed $(SEED))

slow-follower: setup ## 100 times a follower that is stopped, for a moment or for long, under load
	$(PY) -m tests.verify.slow_follower --rounds 100 $(if $(SEED),--seed $(SEED))

cut-brokers: setup ## 200 times a broker that is cut off for 5 to 60 s, one way or both, under load; needs root
	$(PY) -m tests.verify.cut_brokers --cuts 200 --seconds 5 60 $(if $(SEED),--seed $(SEED))

go-client: setup ## the client in Go of examples/go: generated, built in build/go, and tried; needs Go
	$(PY) tools/go_client.py
	$(PYTEST) -m go -n 0 tests/go

console-browser: setup ## the console in a real Chromium; needs chromium, chromedriver and npm
	@mkdir -p build/axe
	@cd build/axe && test -f package/axe.min.js || (npm pack --silent axe-core@4.14.1 && tar xzf axe-core-4.14.1.tgz)
	AXE=build/axe/package/axe.min.js $(PYTEST) -m browser tests/browser

notebook: setup ## executes the notebooks
	$(PYTEST) -m slow tests/notebooks

lint: setup ## style, types, import contracts, generated files
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	.venv/bin/lint-imports
	$(PY) tools/protoc.py --check
	$(PY) tools/kafka_codecs.py --check
	$(PY) tools/configuration.py --check
	$(PY) tools/errors_page.py --check
	$(PY) tools/typed_settings.py --check
	$(PY) tools/monitoring.py --check

proto: setup ## regenerate the checked-in code from proto/ and the Kafka schemas
	$(PY) tools/protoc.py
	$(PY) tools/kafka_codecs.py

docs: setup ## regenerate docs/, the dashboard and the types of settings from the code's tables
	$(PY) tools/configuration.py
	$(PY) tools/errors_page.py
	$(PY) tools/typed_settings.py
	$(PY) tools/monitoring.py

site: setup ## the documentation as web pages, in build/site
	@test -x build/site-venv/bin/mkdocs || ($(PY) -m venv build/site-venv && \
	  build/site-venv/bin/python -m pip install -q $$($(PY) tools/site.py --requirements))
	$(PY) tools/site.py
	NO_MKDOCS_2_WARNING=1 build/site-venv/bin/mkdocs build --quiet --strict

bench: setup ## figures beside bare limits of the same run
	$(PY) -m bench

peers: setup ## the same figures of pylog and of Apache Kafka in one run; needs Java 17, Maven (or KAFKA_LIBS), confluent-kafka
	$(PY) -m bench.peers

audit: setup ## holes that are known of the pinned packages; asks PyPI's advisories, which an own index may not have
	@test -x build/audit-venv/bin/pip-audit || ($(PY) -m venv build/audit-venv && \
	  build/audit-venv/bin/python -m pip install -q --disable-pip-version-check pip-audit==2.10.1)
	build/audit-venv/bin/pip-audit --strict --disable-pip --no-deps --progress-spinner off -r requirements.lock

wheel: setup ## dist/: wheels and source distributions of pylog-spark, and of pylog-client, the client alone
	$(PY) -m build -q --no-isolation
	$(PY) -m build -q --no-isolation -o dist packaging/client
