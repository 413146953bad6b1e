"""Programs that measure, judge or carry away the pipeline; only the command imports them."""
