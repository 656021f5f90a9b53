# make test-programs-fortran   the Fortran programs of MPICH's test suite, from Debian's source package (22 MB, some minutes); part of `make test-programs`
.PHONY: test-programs-fortran
test-programs-fortran: build
	$(PYTHON) tests/programs/mpich_fortran.py

test-programs: test-programs-fortran
