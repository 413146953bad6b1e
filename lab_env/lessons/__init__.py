"""The lessons: `lNN` contains source, checks and figures of lesson NN."""
