"""Entry point of the command `dmlgraph`: Ctrl-C ends it with exit status 130, whatever it is doing.

The signal handler is set before any slow import, including the command's own modules.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys

INTERRUPTED = 130  # 128 plus the number of the signal, as in shells


def main() -> None:
    """The command; does not return."""
    # If the signal is ignored, as in the background of a script, it stays ignored.
    stoppable = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if stoppable:
        signal.signal(signal.SIGINT, _leave)  # no work has begun: no cleanup is needed
        # At exit, Python restores the default action of a signal with a handler, which would kill the process.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # the first registered runs last
    from dmlgraph.cli.commands import main as command
    from dmlgraph.cli.output import prepare

    status: str | int | None = INTERRUPTED
    try:
        if stoppable:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            sys.unraisablehook = _interrupt_again
        prepare()
        command()
    except SystemExit as leaving:
        status = leaving.code
    except BaseException as error:
        if not _is_interrupt(error):
            raise
    finally:
        if stoppable:
            signal.signal(signal.SIGINT, _leave)
    sys.exit(status)


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether an error is or follows from an interrupt: Python 3.11 wraps one that comes while a class is created."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _interrupt_again(ignored: sys.UnraisableHookArgs) -> None:
    """Repeats an interrupt that Python ignores because it came in a callback, such as those of imports."""
    if ignored.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(ignored)
        return
    import threading

    def interrupt() -> None:
        if hasattr(signal, "pthread_kill"):  # which also ends a sleep
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        else:
            signal.raise_signal(signal.SIGINT)

    again = threading.Timer(0.01, interrupt)  # after the callback
    again.daemon = True
    again.start()


def _leave(*_: object) -> None:
    os._exit(INTERRUPTED)
