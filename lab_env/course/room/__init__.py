"""`lab room`: a page on which the instructor sees where learners are stuck.

A seat is one learner's lab; joining is voluntary. A seat sends only numbers, ids, words from fixed
lists, and the name that the learner entered. It never sends answers, code or other text.
"""
