"""What scripts/bench is made of: the service and its servers, load, and what is written of both."""
