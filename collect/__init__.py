"""What runs inside the training process: step timer, loader timing, profiler windows."""
