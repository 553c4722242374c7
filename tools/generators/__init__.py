"""What is generated: each module here makes some files, see tools/generate.py."""
