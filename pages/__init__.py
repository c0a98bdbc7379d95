"""Pages of HTML that hold all they need: no network, readable on a phone.

attention.html and run.html are templates, templates.py fills them.
"""
