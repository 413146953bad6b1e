"""`lab room`: where the seats of a course are stuck, on one page, for those who joined it.

A seat reports numbers, ids and words of fixed lists: no answer, code or text of the learner except
the name that they gave.
"""
