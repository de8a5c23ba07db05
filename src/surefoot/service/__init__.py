"""The decision service: HTTP around `surefoot.experiments`, on `surefoot.storage`."""
