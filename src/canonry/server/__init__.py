"""The service: an HTTP API for programs (`api`) and web pages for people (`pages`)."""
