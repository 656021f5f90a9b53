"""The nouns: topology, traffic, placement, route plan, and their JSON documents."""
