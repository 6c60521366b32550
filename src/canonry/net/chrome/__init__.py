"""A Chrome of our own: its process, its DevTools pipe, its tabs, and the guarded proxy it uses."""
