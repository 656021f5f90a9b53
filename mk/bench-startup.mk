# make bench-startup   schemes of starting jobs on emulated hosts, and launchers on this one, into docs/performance/startup.* (QUICK=1: 4 minutes)
.PHONY: bench-startup test-startup-compare
bench-startup: build
	@test -x build/venv/bin/python || $(PYTHON) -m venv build/venv
	build/venv/bin/pip install -q --disable-pip-version-check matplotlib==3.11.2
	build/venv/bin/python bench/startup.py $(if $(QUICK),--quick)

test-startup-compare: build
	$(PYTHON) tests/startup_compare.py

TEST_GROUPS += test-startup-compare
