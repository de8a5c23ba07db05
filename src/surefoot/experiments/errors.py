"""What a running experiment refuses, by name."""


class Unknown(LookupError):
    """No decision has this id."""


class Conflict(ValueError):
    """The decision is settled, or was made, in another way; what was first stands."""


class Stopped(RuntimeError):
    """The experiment was stopped: serve your own default."""


class Unavailable(ValueError):
    """The arms that are available allow no strategy that is known to be safe."""
