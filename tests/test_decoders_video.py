"""`decoders.video`: frames of videos in memory."""

from __future__ import annotations

import io

import av
import numpy as np
import pytest
import videos


@pytest.mark.parametrize("name", videos.VIDEOS)
def test_the_test_videos_hold_their_numbers_at_their_times(name):
    video = videos.video(name)
    with av.open(io.BytesIO(video.data)) as file:
        frames = list(file.decode(video=0))
    assert tuple(frame.pts * frame.time_base for frame in frames) == video.times
    assert tuple(i for i, frame in enumerate(frames) if frame.key_frame) == video.keys
    pixels = [frame.to_ndarray(format="rgb24") for frame in frames]
    assert tuple(videos.number(each) for each in pixels) == video.numbers
    if video.lossless:
        assert all((videos.picture(n, video.height, video.width) == each).all() for n, each in enumerate(pixels))
    assert frames[0].rotation % 360 == video.rotation


def test_numbers_are_not_read_from_turned_or_foreign_frames():
    picture = videos.picture(677, 48, 64)
    assert videos.number(picture) == videos.number(videos.picture(677, 33, 51)) == 677
    for wrong in (picture[::-1], picture[..., ::-1], np.full_like(picture, 125)):
        with pytest.raises(ValueError, match="no frame with a number"):
            videos.number(wrong)
