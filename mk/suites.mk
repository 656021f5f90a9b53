# make test-suites       what others wrote, by package name: MPICH's test programs, HPCC, NetPIPE (tests/programs); part of `make test-all`
# make test-all          make test, then test-suites

.PHONY: test-all test-suites
test-all:
	$(MAKE) --no-print-directory test
	$(MAKE) --no-print-directory test-suites

test-suites: build
	@examples/prepare.sh suites
	$(PYTHON) tests/programs/mpich.py
	$(PYTHON) tests/programs/hpcc.py
	$(PYTHON) tests/programs/netpipe.py
