# make bench-mpi4py     mpi4py's suite under Ferrule and under MPICH in turn, with 4 ranks (RANKS=2,4 for others): both times

.PHONY: bench-mpi4py
RANKS ?= 4
bench-mpi4py: build build/peers/mpich/bin/mpiexec
	$(PYTHON) tests/mpi4py.py --compare --ranks $(RANKS)
