"""The course as a static site: every worked lesson as it was executed, and the guides, for reading without a lab."""
