"""A model server that fails on command: what a gateway meets from real ones, when a test wants it."""

from services.understudy.faults.script import Load, Script
from services.understudy.faults.server import FaultyServer, Record, faulty

__all__ = ["FaultyServer", "Load", "Record", "Script", "faulty"]
