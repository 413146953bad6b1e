"""What each lesson has beside its source: `lNN` holds the checks and figures of lesson NN."""
