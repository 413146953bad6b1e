"""The lessons: `lNN` contains the source, the checks and the figures of lesson NN."""
