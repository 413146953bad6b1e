"""The course as a static site: the guides, and every worked lesson with its outputs."""
