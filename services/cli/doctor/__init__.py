"""`sabueso doctor`: looks at a live installation and says what is wrong, why, and what mends it."""
