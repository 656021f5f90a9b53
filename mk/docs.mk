# make docs        the pages as a site, into build/site (MkDocs from PyPI); a link that leads nowhere is an error
# make test-docs   the site and its links; what it must refuse; the index, docs/questions.md, and pages that other files name (20 s)
.PHONY: docs test-docs docs-tools
TEST_GROUPS += test-docs

docs-tools:
	@test -x build/venv/bin/python || $(PYTHON) -m venv build/venv
	build/venv/bin/pip install -q --disable-pip-version-check mkdocs==1.6.1 mkdocs-material==9.8.2 pymdown-extensions==13.1.2 markdown==3.11.3 markdown-it-py==4.3.0

docs: docs-tools
	build/venv/bin/python docs/site_of_pages.py

test-docs: docs-tools
	build/venv/bin/python tests/docs.py
