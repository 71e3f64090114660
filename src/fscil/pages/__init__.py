"""What people read: HTML pages, Markdown, LaTeX, figures. Reads results and the paper, never runs anything."""
