# make test-interconnect-net    the interconnect manager with real switches, InfiniBand simulator, Slurm plugin and browser (root; each skipped
#                               with a reason where the machine can't)
.PHONY: test-interconnect-net
test: test-interconnect-net
test-interconnect-net: interconnect-venv
	@examples/prepare.sh interconnect
	cd interconnect && timeout 300 ../$(INTERCONNECT_VENV)/bin/pytest tests/net -rs -s --durations=5
