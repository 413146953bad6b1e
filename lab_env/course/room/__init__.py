"""`lab room`: one page that shows where the seats of a course are stuck.

A seat joins voluntarily. It reports numbers, ids and words from fixed lists. It never sends the
learner's answers, code or other text, except the name that the learner gave.
"""
