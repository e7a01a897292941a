"""Images from encoded bytes (JPEG, PNG, BMP, PNM, WebP, TIFF, GIF and JPEG 2000), sound, video and arrays.

Nothing is taken on trust: formats are recognised by content, sizes are checked before memory is allocated, and
warnings of libraries are errors. All samples of a batch are tried, and one error names every one that failed.
"""

from ._inflate import inflate
from ._operators import audio, image, image_crop, image_random_crop, image_slice, imread, numpy, peek_image_shape, video

__all__ = [
    "audio",
    "image",
    "image_crop",
    "image_random_crop",
    "image_slice",
    "imread",
    "inflate",
    "numpy",
    "peek_image_shape",
    "video",
]


def __dir__() -> list[str]:
    """The names that completion offers."""
    return __all__


for _public in [globals()[name] for name in __all__]:
    _public.__module__ = __name__  # errors, pickles and pages name the module of callers
del _public
