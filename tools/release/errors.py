"""What ends a release."""


class ReleaseError(Exception):
    """Something that is needed is missing, or a wheel is not what it says."""
