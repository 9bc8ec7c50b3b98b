"""The arguments of a call: what a function does with its parameters, checks, layouts, and what a kernel takes."""
