"""Keep an independent ledger of every send, and compare tables with it."""
