# make test-mpich-abi   libmpi.so.12: its symbols, the C tests compiled with MPICH's header, `ferrule info --abi`, mixtures, names of MPI-1
# make test-mpich-fortran-abi   libmpifort.so.12: its symbols, Fortran tests compiled for MPICH's ABI
# make test-all         `make test`, then test-programs, test-guide-source, test-migrate-faults-many and test-offload-many
# make test-programs-mpich-fortran-abi   MPICH's Fortran test programs, built against Debian's MPICH (38 MB) and run on libmpifort.so.12 (some minutes); part of test-programs
# make test-programs    programs of others; of this file: prebuilt ones for MPICH's ABI (IMB, NetPIPE, MOCASSIN, mpi4py's wheel; about ten minutes, 140 MB from PyPI)

.PHONY: test-mpich-abi test-mpich-fortran-abi test-programs-mpich-fortran-abi test-all test-programs test-prebuilt
test-mpich-abi: build build/peers/mpich/bin/mpiexec
	$(PYTHON) tests/mpich_abi.py
	$(PYTHON) tests/run.py --lib mpich-abi

test-mpich-fortran-abi: build
	$(PYTHON) tests/mpich_fortran_abi.py

TEST_GROUPS += test-mpich-abi test-mpich-fortran-abi

test-prebuilt: build build/peers/mpich/bin/mpiexec
	$(PYTHON) tests/programs/prebuilt.py

test-programs-mpich-fortran-abi: build
	$(PYTHON) tests/programs/mpich_fortran.py --lib mpich-abi

test-programs: test-prebuilt test-programs-mpich-fortran-abi
test-all: test
	$(MAKE) test-programs
	$(MAKE) test-guide-source
	$(MAKE) test-migrate-faults-many
	$(MAKE) test-offload-many
