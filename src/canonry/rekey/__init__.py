"""Move stored keys from one policy to another, and back."""
