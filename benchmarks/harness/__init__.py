"""How everything is measured, with no more than Python itself: a child's peak memory starts at its parent's."""
