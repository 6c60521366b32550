"""canonry as a plugin of other tools; each module imports its tool and the public API of canonry."""
