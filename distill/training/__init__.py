"""Training of students: the encoder that learns, the loop, and one recipe a family of tasks."""
