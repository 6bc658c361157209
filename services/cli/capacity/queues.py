"""How long work waits where several serve one queue."""


def erlang_c(servers: int, load: float) -> float:
    """Chance that work has to wait; `load` in servers (arrivals a second times seconds each). 1 from `servers` on.

    A. K. Erlang, 1917; by the recursion of Erlang B, which does not overflow.
    """
    if load >= servers:
        return 1.0
    blocked = 1.0
    for number in range(1, servers + 1):
        blocked = load * blocked / (number + load * blocked)
    return blocked / (1 - load / servers * (1 - blocked))


def waiting_seconds(servers: int, arrivals_per_second: float, seconds: float) -> float:
    """Mean wait of arrivals at random for `servers` that need `seconds` each, exponentially spread; inf if they cannot.

    Where all take equally long it is about half of that (Allen and Cunneen), so this errs on the safe side.
    """
    load = arrivals_per_second * seconds
    if load >= servers:
        return float("inf")
    return erlang_c(servers, load) * seconds / (servers - load)
