"""Tuning: the schedules of a kernel chosen by measurement, and what is kept of that."""
