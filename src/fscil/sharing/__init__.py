"""Trained networks for others: a folder, or a repository on the Hugging Face Hub, with a card made from results."""
