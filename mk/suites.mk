# make test-suites       what others wrote, by package name: MPICH's test programs, HPCC, HDF5's parallel tests (tests/programs); part of `make test-all`
# make test-all          make test, then test-suites

.PHONY: test-all test-suites test-suite-mpich
test-all:
	$(MAKE) --no-print-directory test
	$(MAKE) --no-print-directory test-suites

test-suites: build
	$(PYTHON) tests/programs/mpich.py
