"""What the gateway tells of requests: metrics, an access log, traces."""
