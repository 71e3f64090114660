"""What every page is made of: numbers and prose, tables, figures, templates."""
