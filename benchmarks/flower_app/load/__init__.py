"""The same clients under plain FedAvg and under f2ed."""
