"""The services of sabueso."""

import os

# Before anything imports grpc: its fork handlers run between fork and exec of a child process, and now and then end it
# there. Nothing of ours forks without exec.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
