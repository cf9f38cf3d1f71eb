"""Usual sizes of open dims: of images, and of other inputs."""

from __future__ import annotations

# Height and width of images: of classifiers, of detectors, of lines of text. Elements of other
# inputs: samples of 32 ms, tokens, samples of a second.
IMAGES = ((224, 224), (640, 640), (320, 320), (256, 256), (48, 192), (32, 320))
LENGTHS = (512, 128, 256, 1024, 16000, 32)
