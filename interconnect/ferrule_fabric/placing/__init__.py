"""Which hosts a job gets (`select`), and which rank runs on which (`place.placed` is the way in)."""
