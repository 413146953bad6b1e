"""What measures and judges the pipeline, or takes it elsewhere; only the command imports it."""
