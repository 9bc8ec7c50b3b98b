"""Campaigns: commands that look for defects at random for as long as one likes, and name a small case for each.

    python -m tests.campaigns programs --minutes 10

A campaign is a module of this folder with a function ``run(seed, minutes, count=None) -> Outcome``: it stops at
whichever comes first, and the same seed tries the same cases in the same order.  The first case of a seed is the seed
itself, so that ``--seed CASE --count 1`` repeats any single case.
"""
