"""Results as small pieces of HTML, for notebooks: tables and pictures without any other library."""
