.DEFAULT_GOAL := help
PY := .venv/bin/python

.PHONY: help proto
help: ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | sort
proto: ## regenerate pylog/rpc/v1 from proto/
	$(PY) tools/protoc.py
