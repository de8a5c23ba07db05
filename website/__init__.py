"""What makes the documentation site: its pages, the reference made from code, notebooks, pictures."""
