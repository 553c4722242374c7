"""Files: written whole, read without trust, told apart by content; arrays that are mapped into memory."""
