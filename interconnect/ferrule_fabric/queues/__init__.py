"""Queues per class of lanes at the ports of Open vSwitch switches: which there are (`classes`), how they stand in OVSDB (`rows`, `ovsdb`), and that they do (`keeper`)."""
