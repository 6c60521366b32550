"""Evidence for pages: which URLs show the same page (contract E)."""
