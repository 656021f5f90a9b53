# make test-fortran   a caller of every Fortran interface, constants, wrappers (tests/fortran.py); what the interfaces do is tested by tests/run.py 'fortran/*'
.PHONY: test-fortran
test-fortran: build
	$(PYTHON) tests/fortran.py

TEST_GROUPS += test-fortran
