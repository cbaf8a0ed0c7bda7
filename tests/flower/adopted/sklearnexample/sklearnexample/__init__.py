"""A logistic regression, as Flower's quickstart for scikit-learn."""
