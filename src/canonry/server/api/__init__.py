"""The HTTP API for programs: one module for each resource."""
