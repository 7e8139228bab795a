"""Where objects are, as WEIR_LANE_OBJECTS says."""

from pathlib import Path

from controlplane.lane.objects.bucket import Bucket
from controlplane.lane.objects.folder import Folder
from controlplane.lane.objects.port import Objects

_S3 = "s3://"


def objects_at(where: str) -> Objects:
    """A folder, or `s3://BUCKET/PREFIX`. Raises OSError where it cannot be used."""
    if not where.startswith(_S3):
        return Folder(Path(where))
    bucket, _, prefix = where.removeprefix(_S3).partition("/")
    return Bucket(bucket, prefix.strip("/"))
