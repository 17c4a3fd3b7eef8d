"""Questions asked of a run: SQL, and the few algorithms SQL is slow at."""
