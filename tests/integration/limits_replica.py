"""One gateway as a process of its own, whose clock goes wrong by SKEW_SECONDS; started by tests with its settings."""

import os
import time

if __name__ == "__main__":
    skew = float(os.environ.pop("SKEW_SECONDS", "0"))
    honest = time.time
    time.time = lambda: honest() + skew

    from services.gateway.server import main

    main()
