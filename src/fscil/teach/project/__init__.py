"""A project on disk: its database, its image files, what may go into it and what comes out."""
