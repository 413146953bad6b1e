"""`lab room`: one page that shows where the seats of a course are stuck.

A seat joins voluntarily. It reports numbers, ids and words from fixed lists: no answer, code or
text of the learner except the name that they gave.
"""
