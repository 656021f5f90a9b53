# make test-interconnect    the Python package interconnect/: style, types, unit and property tests
INTERCONNECT_VENV := build/interconnect-venv
.PHONY: test-interconnect interconnect-venv

TEST_GROUPS += test-interconnect

$(INTERCONNECT_VENV)/.installed: interconnect/requirements.txt interconnect/pyproject.toml
	@test -x $(INTERCONNECT_VENV)/bin/python || $(PYTHON) -m venv $(INTERCONNECT_VENV)
	$(INTERCONNECT_VENV)/bin/pip install -q --disable-pip-version-check -r interconnect/requirements.txt
	$(INTERCONNECT_VENV)/bin/pip install -q --disable-pip-version-check --no-deps -e interconnect
	touch $@

interconnect-venv: $(INTERCONNECT_VENV)/.installed

test-interconnect: interconnect-venv
	$(INTERCONNECT_VENV)/bin/ruff check interconnect
	cd interconnect && ../$(INTERCONNECT_VENV)/bin/mypy ferrule_fabric tests bench bed
	cd interconnect && ../$(INTERCONNECT_VENV)/bin/pytest -rs --durations=5

# make bench-interconnect   allocation and placement against their bounds, the simulator against SimGrid (some minutes), into docs/performance/
.PHONY: bench-interconnect
bench-interconnect: interconnect-venv
	$(INTERCONNECT_VENV)/bin/python interconnect/bench/allocation.py
	$(INTERCONNECT_VENV)/bin/python interconnect/bench/scale.py
	$(INTERCONNECT_VENV)/bin/python interconnect/bench/simgrid.py
	$(INTERCONNECT_VENV)/bin/python interconnect/bench/smpi.py
	$(INTERCONNECT_VENV)/bin/python interconnect/bench/report.py
	$(MAKE) bench-interconnect-net

# make bench-interconnect-net   the papers' experiment on real switches (about 40 minutes) and what the manager adds to srun; part of bench-interconnect; root
.PHONY: bench-interconnect-net
bench-interconnect-net: build interconnect-venv interconnect-packages spank
	$(INTERCONNECT_VENV)/bin/python interconnect/bench/experiment.py
	$(INTERCONNECT_VENV)/bin/python interconnect/bench/slurm_overhead.py
	$(INTERCONNECT_VENV)/bin/python interconnect/bench/experiment_report.py
