"""Plans for InfiniBand: forwarding tables by destination, and lanes, in OpenSM's file formats. Pure functions."""
