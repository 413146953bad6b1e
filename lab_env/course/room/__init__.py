"""`lab room`: a page on which the instructor sees where learners are stuck.

A seat is one learner's lab; joining is voluntary. It reports numbers, ids and words from fixed
lists. It never sends the learner's answers, code or other text, except the name that the learner
entered.
"""
