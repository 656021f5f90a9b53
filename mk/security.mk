# make test-security   what docs/user/security.md promises: captures of two hosts, a relay that changes messages

.PHONY: test-security
test-security: build
	$(PYTHON) tests/security.py

TEST_GROUPS += test-security
