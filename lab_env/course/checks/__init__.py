"""How each exercise is judged: `lesson_NN.py` holds one class for each exercise of lesson NN."""
