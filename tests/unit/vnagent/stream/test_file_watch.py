"""Files that change under a running process."""

import asyncio

import pytest

from vnagent.stream.file_watch import WatchedFile, watch_files


async def test_contents_are_compared_not_times(tmp_path):
    """The kubelet swaps a link. The content is what counts."""
    for name in ("old", "new", "same"):
        (tmp_path / name).write_text("new" if name == "same" else name)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "old")
    file = WatchedFile(link)
    assert await file.refresh()
    assert file.content == b"old"
    for target, has_changed in (("new", True), ("same", False), ("old", True)):
        swap = tmp_path / "swap"
        swap.symlink_to(tmp_path / target)
        swap.rename(link)
        assert await file.refresh() is has_changed


async def test_a_file_that_is_gone_keeps_its_last_content(tmp_path):
    """For a moment, or for good: no one is shut out by it."""
    path = tmp_path / "file"
    file = WatchedFile(path)
    assert not await file.refresh()
    path.write_text("here")
    assert await file.refresh()
    path.unlink()
    assert not await file.refresh()
    path.write_text("")
    assert not await file.refresh()
    assert file.content == b"here"


async def test_watching_reports_each_change(tmp_path):
    """No other change is reported."""
    files = [WatchedFile(tmp_path / name) for name in ("a", "b")]
    for file in files:
        file.path.write_text("1")
        await file.refresh()
    told: asyncio.Queue[WatchedFile] = asyncio.Queue()
    watching = asyncio.ensure_future(watch_files(files, told.put, interval_seconds=0.01))
    files[1].path.write_text("2")
    async with asyncio.timeout(5):
        assert await told.get() is files[1]
    await asyncio.sleep(0.05)
    assert told.empty()
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
