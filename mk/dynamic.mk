# make test-dynamic   jobs that connect: separate mpiexecs, and deaths with spawned jobs (some seconds); part of `make test`
.PHONY: test-dynamic
TEST_GROUPS += test-dynamic
test-dynamic: build
	$(PYTHON) tests/dynamic.py
