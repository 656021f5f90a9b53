# make test-migration   suspends and moves the hosts of running jobs in namespaces (a minute; root)
.PHONY: test-migration

test-migration: build
	$(PYTHON) tests/migration.py

# Not in TEST_GROUPS: it has not been run yet (docs/plan.md).
