# make bench-policies   what each automatic choice brings, on and off in turn, near and far, into docs/performance/policies.md (10 minutes)
.PHONY: bench-policies
bench-policies: build
	$(PYTHON) bench/policies.py --out docs/performance/policies
