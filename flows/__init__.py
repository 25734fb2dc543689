"""Order, parallelism, retries: the flows and the command line. No algorithm, no SQL, no MLflow."""
