"""Who does the tasks of a grid: this process one after the other, or many machines."""
