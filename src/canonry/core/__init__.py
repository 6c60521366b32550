"""What a URL means: pure functions and values, no I/O, clock, randomness or logging."""
