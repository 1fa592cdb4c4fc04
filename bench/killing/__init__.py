"""What the kill matrix is made of: owners of servers, ways to end them, and what is left after."""
