# make test-arguments   every function with wrong arguments, one at a time: error class and handler (some seconds); part of `make test`
.PHONY: test-arguments
TEST_GROUPS += test-arguments
test-arguments: build
	$(PYTHON) tests/arguments.py
