# make test-offload   workers that run non-blocking collectives: results, choice, deaths of workers and ranks (about three minutes)
# make bench-offload  overlap, pure latency and a 3-D FFT with and without workers, beside MPICH, Open MPI and Intel MPI with and without their threads, on hosts in namespaces
#                    with limited links and on one node, into docs/performance/offload.md (root; QUICK=1: minutes; ONLY='1 node': scenes with that in their name)
# make demo-offload   two collectives on two hosts in namespaces with links of 100 Mb/s (root): a table, bars in the terminal, build/offload.svg (40 s)
# make test-offload-many  mpi4py's suite with workers, and their deaths at 200 moments (ten minutes; part of `make test-all`)
# make bench-offload-simulated   the published figures of workers beside those of `ferrule lab offload`, into docs/performance/offload-simulated.md (some minutes)
.PHONY: test-offload test-offload-many bench-offload bench-offload-simulated demo-offload
TEST_GROUPS += test-offload
test-offload: build
	$(PYTHON) tests/offload.py

test-offload-many: build
	$(PYTHON) tests/mpi4py.py --offload 1 --ranks 2,4
	$(PYTHON) tests/offload.py -k "die," --moments 200

bench-offload: build
	@test -x build/venv/bin/python || $(PYTHON) -m venv build/venv
	build/venv/bin/pip install -q --disable-pip-version-check matplotlib==3.11.2
	build/venv/bin/python bench/offload.py --page $(if $(QUICK),--quick) $(if $(ONLY),--only '$(ONLY)')

demo-offload: build
	$(PYTHON) bench/offload.py --demo --hosts 2 --mbit 100

bench-offload-simulated: build lanes-venv
	build/venv/bin/python bench/offload_simulated.py
