"""What people look at: tables, figures, the report."""
