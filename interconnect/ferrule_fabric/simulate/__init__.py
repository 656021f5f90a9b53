"""What-if simulation: topology x pattern x scheduler x selection x placement x routing.

`scenario.scenario_from_yaml` reads what is to be compared, `cells.simulated` evaluates single jobs on an empty network, `stream.simulated_stream` streams of
jobs with a scheduler, `output` writes tables and plots.
"""
