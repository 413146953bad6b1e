"""Run the learner's functions in a process of their own, which an examiner can kill.

`packing` carries the functions and the notebook's variables that they use, `process` starts and
kills the process, and `worker` is what runs in it. The capstone's exam and the ladder share them.
"""
