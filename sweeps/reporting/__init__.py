"""What a sweep says in the end: its story, and the pages that tell it."""
