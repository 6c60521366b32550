"""The use-cases: async functions over net and store, one file each."""
