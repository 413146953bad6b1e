"""What all else stands on: settings, the store, installed programs, processes, servers."""
