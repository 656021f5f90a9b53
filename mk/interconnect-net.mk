# make test-interconnect-net    the interconnect manager with real switches, InfiniBand simulator, Slurm plugin and browser (root; each skipped
#                               with a reason where the machine can't)
# make spank                    the Slurm plugin, into dist/lib/ferrule (needs libslurm-dev)
.PHONY: test-interconnect-net spank
$(DIST)/lib/ferrule/spank_ferrule.so: | interconnect-packages
.PHONY: interconnect-packages
interconnect-packages:
	@examples/prepare.sh interconnect launchers

spank: $(DIST)/lib/ferrule/spank_ferrule.so
$(DIST)/lib/ferrule/spank_ferrule.so: interconnect/slurm/spank_ferrule.c
	@mkdir -p $(@D)
	cc -std=gnu11 -O2 -Wall -Wextra -Werror -shared -fPIC -o $@ $< -lslurm

TEST_GROUPS += test-interconnect-net
test-interconnect-net: build interconnect-venv $(DIST)/lib/ferrule/spank_ferrule.so
	cd interconnect && timeout 1500 ../$(INTERCONNECT_VENV)/bin/pytest tests/net -rs -s --durations=5
