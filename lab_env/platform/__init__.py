"""The base of everything else: settings, the store, installed programs, processes, servers."""
