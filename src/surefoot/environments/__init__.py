"""What the world does: losses, costs, and scenarios made of them."""
