# make test-ssh   mpiexec over real ssh: hosts in namespaces with sshd of their own, users, keys, shells, hosts that hang, kills (root; about a minute)

.PHONY: test-ssh
test-ssh: build
	@examples/prepare.sh ssh
	$(PYTHON) tests/ssh.py

TEST_GROUPS += test-ssh
