"""How well deciders do: one module a family of tasks."""
