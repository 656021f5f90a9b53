"""The pattern store: what applications sent, run by run. `database.PatternStore` is the way in."""
