# make test-faults   ranks die in every kind of operation, and the survivors go on (a minute; MOMENTS=100); part of `make test`
.PHONY: test-faults
TEST_GROUPS += test-faults
test-faults: build
	$(PYTHON) tests/faults.py --moments $(or $(MOMENTS),100)
