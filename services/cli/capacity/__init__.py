"""`sabueso capacity`: how many people an installation serves, what limits it, and what more of them would need."""
