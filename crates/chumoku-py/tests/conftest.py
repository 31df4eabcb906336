"""Setup for all tests."""

import signal

# Shells ignore Ctrl-C in background jobs and their children. Tests that send it would wait forever.
signal.signal(signal.SIGINT, signal.default_int_handler)
