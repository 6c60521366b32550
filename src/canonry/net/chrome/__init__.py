"""Pages opened in a real Chrome: its process, its DevTools pipe, its tabs, and the guarded proxy that it uses."""
