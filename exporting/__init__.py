"""Trained models as functions of strings, ids and examples, in memory or in a file.

options are the flags that the commands share, sources opens what was trained,
features has the inputs that all tasks take, saved_model writes and opens the files.
Each task is a module with a function `signatures`: classifying, answering, tagging,
choosing, filling, embedding. served says which task is which. For predict.py, lines
reads what is asked, arriving gathers it as it comes, predicting calls a signature, and
objects makes JSON of what comes out.
"""
