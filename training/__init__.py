"""One loop for all tasks: `loop` reads top to bottom, `steps` is what it compiles.

settings and flags say what a run is, run_folder and saving keep it, distribution and
hardware say on what; optimization, schedules, precision and averages make the update;
metering, reporting and profiling watch it, history reads what they wrote and plot draws
it; signals stop it and agreement keeps workers together. fine_tuning and trials are
what the scripts share, metrics, confusion and results the scores.
"""
