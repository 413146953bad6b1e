"""What lesson 14 owns beside its source: hand-made streams, its checks, its drawings."""
