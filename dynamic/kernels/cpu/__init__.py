"""Kernels over NumPy and OpenCV, on one image of host memory at a time.

OpenCV runs in the thread that calls it: samples are spread over threads of ours, and OpenCV's own pool would not
survive a fork.
"""

import cv2

cv2.setNumThreads(1)
