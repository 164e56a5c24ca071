"""Parts of scripts/bench: the service and its servers, load, and reports."""
