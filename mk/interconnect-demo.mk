# make demo-interconnect    real switches, the manager, a job, its profile, the job again with routes, before and after (about a minute; root).
#                           STAY=1: the page stays up until Enter is pressed
.PHONY: demo-interconnect
demo-interconnect: build interconnect-venv interconnect-packages
	$(INTERCONNECT_VENV)/bin/python interconnect/bed/demo.py $(if $(STAY),--stay)
