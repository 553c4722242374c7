"""Where the command `dmlgraph` begins: a Ctrl-C ends it with exit status 130, whatever it is doing.

The signal is handled before anything is imported that takes long, the command's own modules among it.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys

INTERRUPTED = 130  # 128 and the number of the signal, as shells have it


def main() -> None:
    """The command; does not return."""
    # Where the signal is ignored, as in the background of a script, it stays so.
    stoppable = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if stoppable:
        signal.signal(signal.SIGINT, _leave)  # nothing is under way: nothing has to be cleared away
        # Python gives a signal that has a handler back to the system as it ends, which would end the process by it.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # the first that is registered runs last
    from dmlgraph.cli import main as command

    status: str | int | None = INTERRUPTED
    try:
        if stoppable:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            sys.unraisablehook = _interrupt_again
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
    """Whether an error is an interrupt or follows from one: Python 3.11 wraps one that comes while a class is made."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _interrupt_again(ignored: sys.UnraisableHookArgs) -> None:
    """Repeats an interrupt that Python ignores, since it came in a callback, such as those that imports make."""
    if ignored.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(ignored)
        return
    import threading

    def interrupt() -> None:
        if hasattr(signal, "pthread_kill"):  # which ends a sleep, too
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        else:
            signal.raise_signal(signal.SIGINT)

    again = threading.Timer(0.01, interrupt)  # once the callback is over
    again.daemon = True
    again.start()


def _leave(*_: object) -> None:
    os._exit(INTERRUPTED)
