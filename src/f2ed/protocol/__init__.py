"""How updates reach the server unseen: shards, fixed-point integers, noise, secure sums and one server step."""
