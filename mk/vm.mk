# make test-vm       ranks in virtual machines of one host, with and without an ivshmem device (QEMU; a minute; root, else skipped with the reason)
# make measure-vm    latency and bandwidth between two VMs: ivshmem against TCP
.PHONY: test-vm measure-vm
TEST_GROUPS += test-vm
test-vm: build
	$(PYTHON) tests/vm.py

measure-vm: build
	$(PYTHON) tests/vm.py --measure
