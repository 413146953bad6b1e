"""Base of all other packages: settings, the store, installed programs, processes, servers."""
