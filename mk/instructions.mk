# make test-instructions   how many instructions a message of 8 bytes takes, against limits (callgrind; half a minute)
.PHONY: test-instructions
test-instructions: build
	@examples/prepare.sh test
	$(PYTHON) bench/instructions.py

TEST_GROUPS += test-instructions
