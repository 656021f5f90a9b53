# make deps             installs what is missing (Debian, Ubuntu, Fedora, openSUSE), and says before what that is; NO_DEPS=1 only says it
# make build            everything, into dist/{bin,lib,include,share}; the tree may be moved
# make install          copies dist/ to PREFIX (/usr/local), below DESTDIR if that is set; make uninstall removes it
# Variables: PROFILE=release|dev (how the Rust code is built), CARGO=cargo
# Other targets are in mk/*.mk.

PROFILE ?= release
PREFIX ?= /usr/local
CARGO ?= cargo
DIST := $(CURDIR)/dist
TARGET := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),$(CURDIR)/target)/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)

.PHONY: build deps install uninstall clean
build:
	@[ -z "$(BUILD_FAILED)" ] || { echo "the build has failed before, see there"; exit 1; }
	@examples/prepare.sh --check build
	$(CARGO) build --profile $(PROFILE) -p launch -p offload --bins
	$(CARGO) rustc --profile $(PROFILE) -p abi --lib --crate-type cdylib
	$(CARGO) rustc --profile $(PROFILE) -p mpich_abi --lib --crate-type cdylib $(if $(filter release,$(PROFILE)),-- -C lto=thin)
	mkdir -p $(DIST)/bin $(DIST)/lib/mpich $(DIST)/lib/pkgconfig $(DIST)/include $(DIST)/share/ferrule
	install -m 644 crates/abi/include/mpi.h crates/abi/include/mpi_removed.h crates/abi/include/mpi-ext.h $(DIST)/include/
	install -m 755 $(TARGET)/libmpi_abi.so $(DIST)/lib/libmpi_abi.so.1
	ln -sf libmpi_abi.so.1 $(DIST)/lib/libmpi_abi.so
	install -m 755 $(TARGET)/libmpich_abi.so $(DIST)/lib/mpich/libmpi.so.12
	for name in libmpi.so libmpich.so.12 libmpich.so; do ln -sf libmpi.so.12 $(DIST)/lib/mpich/$$name; done
	for name in mpiexec ferrule ferrule-lab ferrule-worker; do \
	  if [ -x $(TARGET)/$$name ]; then install -m 755 $(TARGET)/$$name $(DIST)/bin/$$name; fi; done
	ln -sf mpiexec $(DIST)/bin/mpirun
	sed 's/@VERSION@/$(VERSION)/' crates/abi/wrappers/mpicc > $(DIST)/bin/.mpicc
	chmod 755 $(DIST)/bin/.mpicc
	for name in mpicc mpicxx mpic++ mpifort mpif77 mpif90; do cp $(DIST)/bin/.mpicc $(DIST)/bin/$$name; done
	rm $(DIST)/bin/.mpicc
	sed 's/@NAME@/mpi/; s/@PCVERSION@/5.0/' crates/abi/wrappers/mpi.pc.in > $(DIST)/lib/pkgconfig/mpi.pc
	sed 's/@NAME@/ferrule/; s/@PCVERSION@/$(VERSION)/' crates/abi/wrappers/mpi.pc.in > $(DIST)/lib/pkgconfig/ferrule.pc
	@fortran/build.sh $(TARGET)/fortran $(DIST)
	@fortran/mpich.sh $(TARGET)/fortran-mpich $(DIST)
	$(DIST)/bin/ferrule info --pages $(DIST)

install:
	@mk/install.sh install $(DIST) $(DESTDIR)$(PREFIX)

uninstall:
	@mk/install.sh uninstall $(DESTDIR)$(PREFIX)

clean:
	rm -rf $(DIST)

# The groups of `make test`, in this order; other files of mk/ add theirs.
TEST_GROUPS := test-rust test-groups test-deps test-install test-licences test-oracle test-mpi4py test-kill test-environment test-diagnosis test-rails test-resources test-locality \
  test-launch-containers test-containers test-python

-include mk/*.mk
