"""What is checked at the door: texts on their way in, answers on their way out."""
