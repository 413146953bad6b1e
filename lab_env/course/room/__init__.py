"""`lab room`: a page on which the instructor sees where learners are stuck.

A seat is one learner's lab; joining is voluntary. A seat sends only numbers, ids and words from
fixed lists, plus the name that the learner entered, never answers, code or other text.
"""
