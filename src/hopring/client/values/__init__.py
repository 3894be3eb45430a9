"""Values of applications in messages: codecs of their bodies, and trace context in their headers."""
