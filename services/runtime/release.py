"""Which release this is. Images hold no package, so that there is nothing to ask."""

VERSION = "0.1.0"
