"""Questions that `csdf report` asks the other packages, and how long each question may take."""
