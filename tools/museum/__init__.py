"""One module for each known fault, and the two pages of the documentation that show them."""
