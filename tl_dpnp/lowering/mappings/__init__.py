"""Mappings: the ways in which the work-items of a device share the work-groups of a program.

Each is a class of `mapping.Mapping` in a module of its own, with all about it; `choice` has the list of them, and
`frames` what the runtime has to know of each to launch it.  No other module knows their names.
"""
