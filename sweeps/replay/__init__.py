"""What n-gram drafts would have been accepted on recorded output, computed without a server."""
