"""What people write for days, periods, numbers and amounts, in Spanish and English, read into values."""
