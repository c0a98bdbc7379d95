"""How a run ends other than by being complete."""

# sysexits.h EX_TEMPFAIL: stopped on request, everything saved, start again to go on.
EXIT_INTERRUPTED = 75


class RunError(ValueError):
    """A run can't start or go on; the message is the sentence a person reads."""


class Interrupted(SystemExit):
    """SIGTERM or SIGINT arrived; the step was finished and a checkpoint written."""

    def __init__(self, step):
        super().__init__(EXIT_INTERRUPTED)
        self.step = step
