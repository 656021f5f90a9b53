# make test-topology        jobs on machines that only files of hwloc describe; part of `make test`
.PHONY: test-topology
TEST_GROUPS += test-topology
test-topology: build
	$(PYTHON) tests/topology.py
