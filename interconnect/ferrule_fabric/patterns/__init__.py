"""Communication patterns: generators with the shape of known programs, and the short texts that name them (`spec.pattern_of`)."""
