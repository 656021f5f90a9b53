# make test-profile   what mpiexec --profile and libferrule-pmpi count, against programs whose messages are known
# make pmpi           libferrule-pmpi.so for libraries with the standard ABI, into dist/lib/ferrule (others: interconnect/pmpi/README.md)

.PHONY: test-profile pmpi
pmpi: $(DIST)/lib/ferrule/libferrule-pmpi.so
$(DIST)/lib/ferrule/libferrule-pmpi.so: $(wildcard interconnect/pmpi/*.[ch]) | build
	mkdir -p $(@D)
	$(MAKE) -s -C interconnect/pmpi MPICC=$(DIST)/bin/mpicc OUT=$@ $@

test-profile: build pmpi interconnect-venv build/peers/mpich/bin/mpiexec build/peers/openmpi/bin/mpirun
	$(INTERCONNECT_VENV)/bin/python tests/profile.py

TEST_GROUPS += test-profile
