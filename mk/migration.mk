# make test-migration        suspends and moves the hosts of running jobs in namespaces (two minutes; root)
# make test-migrate          ferrule migrate with its drivers for scripts and libvirt, in namespaces, and twenty moves under each kind of traffic (40 s; root)
# make test-migrate-faults   something is killed, cut or refused at a random moment of a migration (MOMENTS=20; less than a minute on a machine that is not busy; root); `make test-all` tries 200 moments
# make test-migrate-vm       ferrule migrate moves two QEMU guests while a job runs in them (a minute; root, else skipped with the reason)
# make demo-migration        the same, to look at
# make bench-migration       what a migration costs a job with FERRULE_MIGRATION=pe and mt, into docs/performance/migration.md (a quarter of an hour; QUICK=1: three minutes; BUSY=1 marks
#                            the figures as those of a busy machine; ONLY=totals,endpoints,instructions,growth: these parts alone; root)
.PHONY: test-migration test-migrate test-migrate-faults test-migrate-faults-many test-migrate-vm demo-migration bench-migration

test-migration: build
	$(PYTHON) tests/migration.py

bench-migration: build lanes-venv
	@examples/prepare.sh test
	build/venv/bin/python bench/migration.py $(if $(QUICK),--quick) $(if $(BUSY),--busy) $(if $(ONLY),--only '$(ONLY)')

test-migrate: build
	$(PYTHON) tests/migrate.py

test-migrate-faults: build
	$(PYTHON) tests/migrate_faults.py --moments $(or $(MOMENTS),20)

test-migrate-faults-many: build
	$(PYTHON) tests/migrate_faults.py --moments 200

test-migrate-vm demo-migration: build
	$(PYTHON) tests/migrate.py --guests

TEST_GROUPS += test-migration test-migrate test-migrate-faults
