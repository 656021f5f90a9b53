# make test-offload   workers that run non-blocking collectives: results, choice, deaths of workers and ranks (about three minutes)
# make bench-offload  overlap and pure latency of collectives with and without workers, into build/offload.json: on this host, or with HOSTS=N [MBIT=400] on
#                    hosts in namespaces with links of that rate (root)
# make demo-offload   the same of two collectives on two hosts in namespaces with links of 100 Mb/s (root): a table, bars in the terminal, build/offload.svg (40 s)
.PHONY: test-offload bench-offload demo-offload
TEST_GROUPS += test-offload
test-offload: build
	$(PYTHON) tests/offload.py

bench-offload: build
	$(PYTHON) bench/offload.py --json build/offload.json $(if $(HOSTS),--hosts $(HOSTS)) $(if $(MBIT),--mbit $(MBIT))

demo-offload: build
	$(PYTHON) bench/offload.py --demo --hosts 2 --mbit 100
