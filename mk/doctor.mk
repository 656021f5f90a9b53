# make test-doctor   ferrule doctor here, and with things taken away (half a minute); part of `make test`
.PHONY: test-doctor
TEST_GROUPS += test-doctor
test-doctor: build
	$(PYTHON) tests/doctor.py
