"""The ways people reach canonry: command line, HTTP API, web pages."""
