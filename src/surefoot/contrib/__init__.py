"""Surefoot inside other tools. Everything here talks to the service through `surefoot.client` alone."""
