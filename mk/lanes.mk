# make demo-lanes    small messages beside a bulk stream, with one lane and with lanes of their own: a table, a plot in the terminal, build/lanes.svg (half a minute; root)
# make bench-lanes   what lanes bring: round trips beside a bulk stream, streams over one bottleneck, all-to-all and 3-D FFT, two rails, beside the peers, into
#                    docs/performance/lanes.md (QUICK=1: shorter, without the peers; ONLY=PATTERN: these plans alone; root)
# make bench-lanes-simulated   the published figures of virtual lanes beside those of `ferrule lab lanes`, into docs/performance/lanes-simulated.md (ten seconds)
# make test-ucx     jobs over UCX: between hosts, without a usable library, with processes killed (a minute)
# make test-lanes    lanes on such hosts: latency beside a stream, data, settings, what is left (half a minute; root)
.PHONY: demo-lanes bench-lanes bench-lanes-simulated lanes-venv test-lanes test-ucx

lanes-venv:
	@test -x build/venv/bin/python || $(PYTHON) -m venv build/venv
	@build/venv/bin/pip install -q --disable-pip-version-check matplotlib==3.11.2

demo-lanes: build lanes-venv
	build/venv/bin/python bench/lanes_demo.py

bench-lanes: build lanes-venv
	build/venv/bin/python bench/lanes.py $(if $(QUICK),--quick) $(if $(ONLY),--only '$(ONLY)')

bench-lanes-simulated: build lanes-venv
	build/venv/bin/python bench/lanes_simulated.py

test-lanes: build
	$(PYTHON) tests/lanes.py

test-ucx: build
	$(PYTHON) tests/ucx.py

TEST_GROUPS += test-lanes test-ucx
