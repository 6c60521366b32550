"""What a URL means: pure functions and values without I/O, clock, randomness or logging."""
