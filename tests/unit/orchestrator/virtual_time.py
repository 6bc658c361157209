"""An event loop whose time jumps to what is waited for: hours pass at once, and no busy machine makes them longer."""

import asyncio
import selectors


class _Jumping(selectors.SelectSelector):
    """Nothing comes from outside, so what would be waited for is over at once."""

    now = 0.0

    def select(self, timeout=None):
        self.now += timeout or 0
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its `time()` starts at 0."""

    def __init__(self):
        self.jumping = _Jumping()
        super().__init__(self.jumping)

    def time(self):
        return self.jumping.now


def run(main):
    """Runs a coroutine in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
