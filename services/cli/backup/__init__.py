"""`sabueso backup` and `sabueso restore`: all that an installation cannot make again, but for secrets."""
