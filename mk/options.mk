# make test-options   every option of mpiexec.hydra and mpirun against tests/options.toml: honoured, refused, or without effect; docs/user/options.md

.PHONY: test-options
test-options: build build/peers/mpich/bin/mpiexec build/peers/openmpi/bin/mpirun
	$(PYTHON) tests/options.py

TEST_GROUPS += test-options
