# make demo     what is missing, build, then two programs on two network-namespace hosts (examples/demo.sh)
# make test     all that CI runs: what is missing, build, then each target of TEST_GROUPS (tests/groups.py), with a table at the end
# make bench    micro-benchmarks against the peers, into docs/performance/ (QUICK=1 for the peers table only; BUDGET=55 minutes)
# make test-flaky   what depends on time, N=20 times, every second time on a busy machine: which test has failed how often (PARTS="kill launch")
# A new group is a target and a line `TEST_GROUPS += target`.
# Rust installed by rustup is found also when the shell has not read its profile.
export PATH := $(PATH):$(HOME)/.cargo/bin
PYTHON ?= python3
DEPS ?= build demo test

.PHONY: deps demo test test-rust test-oracle test-mpi4py test-mpi4py-all test-programs test-kill test-environment test-diagnosis test-rails test-resources bench test-locality \
  test-install test-deps test-groups test-licences test-flaky

deps:
	@examples/prepare.sh $(DEPS)

demo:
	@$(MAKE) --no-print-directory deps DEPS="build demo"
	$(MAKE) --no-print-directory build
	$(PYTHON) tests/mpi4py.py --prepare
	$(PYTHON) examples/install_mpi4py_fft.py
	examples/demo.sh

test:
	@$(MAKE) --no-print-directory deps DEPS="build test"
	@+$(PYTHON) tests/groups.py $(if $(STRICT),--strict) --make "$(MAKE)" build $(TEST_GROUPS)

test-rust: build
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	$(CARGO) xtask tidy
	$(CARGO) test --workspace --quiet --no-fail-fast

build/peers/mpich/bin/mpiexec:
	$(PYTHON) -m venv build/peers/mpich
	build/peers/mpich/bin/pip install -q --disable-pip-version-check mpich==5.0.2

test-oracle: build build/peers/mpich/bin/mpiexec
	$(PYTHON) tests/symbols.py
	$(PYTHON) tests/run.py --lib mpich
	$(PYTHON) tests/run.py --lib ferrule

test-mpi4py: build
	$(PYTHON) tests/mpi4py.py --ranks 2,4

test-mpi4py-all: build build/peers/mpich/bin/mpiexec
	$(PYTHON) tests/mpi4py.py --ranks 1,2,3,4,5 --skips
	$(PYTHON) tests/mpi4py.py --lib mpich-abi --ranks 1,2,3,4,5 --skips

test-programs: test-mpi4py-all

test-kill: build
	$(PYTHON) tests/kill.py --moments 200

test-environment: build
	$(PYTHON) tests/environment.py

test-rails: build
	$(PYTHON) tests/rails.py

test-diagnosis: build
	$(PYTHON) tests/diagnosis.py

test-resources: build
	$(PYTHON) tests/resources.py

bench: build
	$(PYTHON) -m venv build/venv
	build/venv/bin/pip install -q --disable-pip-version-check matplotlib==3.11.2
	build/venv/bin/python bench/run.py $(if $(QUICK),--quick) $(if $(BUDGET),--budget $(BUDGET))

test-locality: build
	$(PYTHON) tests/locality.py

test-launch-containers: build
	$(PYTHON) tests/interfaces.py
	$(PYTHON) tests/kubernetes.py
	$(PYTHON) tests/launch_containers.py

test-containers: build
	$(PYTHON) tests/containers.py
	$(PYTHON) tests/complaints.py

test-python: docs-tools
	@test -x build/venv/bin/python || $(PYTHON) -m venv build/venv
	build/venv/bin/pip install -q --disable-pip-version-check ruff==0.17.6 mypy==2.4.1
	build/venv/bin/ruff check
	set -e; for folder in tests bench docs examples fortran packaging testbeds/containers testbeds/lanes testbeds/ovs testbeds/slurm testbeds/ssh testbeds/vm; do build/venv/bin/mypy $$folder; done

test-install: build
	$(PYTHON) tests/install.py

test-deps:
	$(PYTHON) tests/deps.py

test-groups:
	$(PYTHON) tests/groups_test.py

test-flaky: build
	$(PYTHON) tests/flaky.py --rounds $(or $(N),20) $(PARTS)

test-licences:
	@test -x build/venv/bin/python || $(PYTHON) -m venv build/venv
	build/venv/bin/pip install -q --disable-pip-version-check reuse==6.2.0
	$(PYTHON) tests/licences.py

bench-containers: build
	@test -x build/venv/bin/python || $(PYTHON) -m venv build/venv
	build/venv/bin/pip install -q --disable-pip-version-check matplotlib==3.11.2
	build/venv/bin/python bench/containers.py $(if $(QUICK),--quick)

.PHONY: test-containers test-python bench-containers
