"""A network on a table, as Flower's tabular quickstart."""
