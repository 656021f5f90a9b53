"""The manager service: jobs come and go by an HTTP API, their routes are installed and removed, the state survives a crash."""
