"""From a lesson's source to its two notebooks and its exercises; CONTRIBUTING.md has the grammar."""
