"""Objects that a forked process makes anew: it has none of the threads that hold their locks and do their work."""

from __future__ import annotations

import abc
import os
import weakref

_living: weakref.WeakSet[PerProcess] = weakref.WeakSet()


class PerProcess(abc.ABC):
    """Has something that `renew` makes: at first, and again in a forked process."""

    def __init__(self) -> None:
        self.renew()
        _living.add(self)

    @abc.abstractmethod
    def renew(self) -> None:
        """Makes what belongs to one process; in a forked process, the thread that forked is the only one."""


def _renew_all() -> None:
    for each in list(_living):
        each.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
