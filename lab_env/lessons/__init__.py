"""What each lesson owns beside its source: `lNN` holds the checks, figures and exercises of lesson NN."""
