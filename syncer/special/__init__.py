"""What is special about single kinds; everything general is one level up."""
