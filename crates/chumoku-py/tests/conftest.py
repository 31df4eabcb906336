"""What all tests begin with."""

import signal

# Ctrl-C is ignored in what a shell starts in the background, and by all that this starts: tests that press it would wait in vain.
signal.signal(signal.SIGINT, signal.default_int_handler)
