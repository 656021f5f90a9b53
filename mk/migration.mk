# make test-migration   suspends and moves the hosts of running jobs in namespaces (half a minute; root)
.PHONY: test-migration

test-migration: build
	$(PYTHON) tests/migration.py

TEST_GROUPS += test-migration
