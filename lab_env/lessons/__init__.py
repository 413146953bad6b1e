"""The lessons: `lNN` holds source, checks and figures of lesson NN."""
