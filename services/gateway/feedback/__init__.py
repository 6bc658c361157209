"""What people say of answers: kept for evals, and told to the traces of those answers."""
