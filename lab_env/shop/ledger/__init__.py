"""The independent record of what was sent, and its comparison with tables."""
