# make fuzz SECONDS=10      each target runs so long under libFuzzer and AddressSanitizer; FUZZ_TARGETS= picks some
# make fuzz-smoke           replays the committed inputs and random ones without libFuzzer; also part of `make test`
# New inputs go to target/fuzz/new, inputs that crash to target/fuzz/crashes. See fuzz/README.md.

SECONDS ?= 10
FUZZ_DIR := $(CURDIR)/target/fuzz
FUZZ_HOST = $(shell rustc -vV | sed -n 's/^host: //p')
FUZZ_BIN = $(FUZZ_DIR)/$(FUZZ_HOST)/debug
FUZZ_TARGETS ?= $(sort $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs))))
FUZZ_MANIFEST := --manifest-path fuzz/Cargo.toml

# The coverage that libFuzzer wants is a stable option of rustc, the sanitizer is not: RUSTC_BOOTSTRAP allows it.
FUZZ_COVERAGE := -Cpasses=sancov-module $(addprefix -Cllvm-args=-sanitizer-coverage-,level=4 inline-8bit-counters \
  pc-table trace-compares) --cfg fuzzing -Ccodegen-units=1
FUZZ_SANITIZER ?= -Zsanitizer=address

.PHONY: fuzz fuzz-build fuzz-smoke
fuzz-build:
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="$(FUZZ_COVERAGE) $(FUZZ_SANITIZER)" $(CARGO) build $(FUZZ_MANIFEST) \
	  --target-dir $(FUZZ_DIR) --target $(FUZZ_HOST) --features libfuzzer --bins

fuzz: fuzz-build
	@fuzz/run $(FUZZ_BIN) $(FUZZ_DIR) $(SECONDS) $(FUZZ_TARGETS)

fuzz-smoke:
	$(CARGO) test $(FUZZ_MANIFEST) --target-dir target --test replay -- --nocapture

TEST_GROUPS += fuzz-smoke
