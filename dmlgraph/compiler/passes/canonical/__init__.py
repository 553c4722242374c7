"""Rules that serve every target: exact simplifications, and numbers and copies that go into their readers."""
