# make test-startup   how jobs start: schemes of --startup, bytes and messages, 1,024 ranks, --preload, hosts that misbehave, kills

.PHONY: test-startup
test-startup: build
	$(PYTHON) tests/startup.py

TEST_GROUPS += test-startup
