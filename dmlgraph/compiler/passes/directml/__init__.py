"""Rules for what DirectML does in one dispatch; another target takes those of them that serve it, too."""
