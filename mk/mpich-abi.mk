# make test-mpich-abi   libmpi.so.12: its symbols, the C tests compiled with MPICH's header, `ferrule info --abi`, mixtures, names of MPI-1
# make test-all         `make test`, then test-programs
# make test-programs    programs of others; of this file: prebuilt ones for MPICH's ABI (IMB, NetPIPE, mpi4py's wheel; about ten minutes, 140 MB from PyPI)

.PHONY: test-mpich-abi test-all test-programs test-prebuilt
test-mpich-abi: build build/peers/mpich/bin/mpiexec
	$(PYTHON) tests/mpich_abi.py
	$(PYTHON) tests/run.py --lib mpich-abi

TEST_GROUPS += test-mpich-abi

test-prebuilt: build build/peers/mpich/bin/mpiexec
	$(PYTHON) tests/programs/prebuilt.py

test-programs: test-prebuilt
test-all: test
	$(MAKE) test-programs
