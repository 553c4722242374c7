"""A lock that is given in the order of the line, and taken again by the thread that has it."""

from __future__ import annotations

import threading

from dmlgraph.devices.host.turns import Turns


def test_places_are_served_in_their_order_by_any_thread() -> None:
    turns, served = Turns(), []
    places = [turns.place() for _ in range(5)]
    places[2].leave()

    def serve(number: int) -> None:
        with places[number].taken(), turns.taken():  # nested
            served.append(number)

    threads = [threading.Thread(target=serve, args=(number,)) for number in (4, 1, 3, 0)]
    for thread in threads:
        thread.start()
    with turns.taken():  # after those in the line
        served.append(9)
    for thread in threads:
        thread.join()
    assert served == [0, 1, 3, 4, 9]


def test_one_thread_at_a_time() -> None:
    turns, inside, most = Turns(), 0, []

    def enter() -> None:
        nonlocal inside
        for _ in range(200):
            with turns.place().taken() if threading.current_thread().name == "placed" else turns.taken():
                inside += 1
                most.append(inside)
                inside -= 1

    threads = [threading.Thread(target=enter, name=name) for name in ("placed", "placed", "not", "not")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 800


def test_later_places_do_not_hold_up_whoever_came_before() -> None:
    turns = Turns()
    with turns.taken():
        later = turns.place()
        with turns.taken():
            pass
    with later.taken():
        pass


def test_a_forked_process_has_locks_that_nobody_holds() -> None:
    turns = Turns()
    turns.busy.acquire()
    turns.renew()  # what a fork calls in the child, which lacks the thread that holds the lock
    assert not turns.busy.locked()
