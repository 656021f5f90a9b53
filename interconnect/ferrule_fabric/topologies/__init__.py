"""Where topologies come from: generators, and readers of other tools' formats.

`spec.topology_of` takes the short text that the command line and scenarios use, such as ``xgft:h=2,m=5x4,w=1x2`` or ``file:cluster.graphml``.
"""
