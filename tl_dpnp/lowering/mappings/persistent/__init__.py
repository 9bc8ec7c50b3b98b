"""The staged form: blocks of threads that run as long as there are work-groups (`staging`)."""
