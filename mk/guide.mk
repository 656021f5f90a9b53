# make test-guide          docs/user/install.md followed by a script in a bare Debian: the .deb, up to a job on two hosts (root, else skipped with the reason)
# make test-guide-source   the same from source, with Rust and crates (ten minutes; part of `make test-all`)
.PHONY: test-guide test-guide-source
TEST_GROUPS += test-guide

test-guide: build packaging-tools
	$(PYTHON) tests/guide.py

test-guide-source:
	$(PYTHON) tests/guide.py --source
