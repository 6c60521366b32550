"""canonry inside tools people already use; each module imports its tool and the public API, nothing else."""
