# make test-migration      suspends and moves the hosts of running jobs in namespaces (half a minute; root)
# make test-migrate        ferrule migrate with its drivers for scripts and libvirt, in namespaces (half a minute; root)
# make test-migrate-vm     ferrule migrate moves two QEMU guests while a job runs in them (a minute; root, else skipped with the reason)
# make demo-migration      the same, to look at
.PHONY: test-migration test-migrate test-migrate-vm demo-migration

test-migration: build
	$(PYTHON) tests/migration.py

test-migrate: build
	$(PYTHON) tests/migrate.py

test-migrate-vm demo-migration: build
	$(PYTHON) tests/migrate.py --guests

TEST_GROUPS += test-migration test-migrate
