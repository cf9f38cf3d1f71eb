"""Designs of hls4ml: C++ with streams between its functions."""
