# make bench-compare BEFORE=dist1 AFTER=dist2   two builds in turn: is every row within 3 %? (ALL=1: all plans; PAIRS=9, BUDGET=55 minutes)
# make test-bench                               what the pages of docs/performance may say: grouping by distance, goals, budgets; nothing is measured
.PHONY: bench-compare test-bench
AFTER ?= dist
PAIRS ?= 9
bench-compare:
	@[ -n "$(BEFORE)" ] || { echo "BEFORE is missing: the dist/ folder of the build to compare with" >&2; exit 2; }
	$(PYTHON) bench/trees.py $(BEFORE) $(AFTER) --pairs $(PAIRS) $(if $(BUDGET),--budget $(BUDGET)) $(if $(ALL),--all)

test-bench:
	$(PYTHON) bench/results_test.py

TEST_GROUPS += test-bench
