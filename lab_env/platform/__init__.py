"""The base of all rooms: settings, the store, installed programs, processes, servers."""
