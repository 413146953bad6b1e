"""The lessons: the package `lNN` has the source, the checks and the figures of lesson NN."""
