# make pages        docs/reference/options.md and settings.md from the tables of mpiexec and of the settings; `cargo test -p launch` compares them
# make test-pages   man pages without warnings of groff or mandoc; completion in bash, and in zsh and fish where they are
.PHONY: pages test-pages
pages: build
	cp $(DIST)/share/doc/ferrule/options.md $(DIST)/share/doc/ferrule/settings.md docs/reference/

TEST_GROUPS += test-pages
test-pages: build
	$(PYTHON) tests/pages.py
