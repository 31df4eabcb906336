"""Archives that have the same bytes whenever they are made from the same files."""

import base64
import csv
import gzip
import hashlib
import io
import lzma
import pathlib
import tarfile
import time
import zipfile


def sha256(path):
    """Returns the checksum of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def entries_of(folder, prefix):
    """Returns the files of a folder as entries: (name in the archive, bytes, True for a program)."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield f"{prefix}/{path.relative_to(folder).as_posix()}", path.read_bytes(), bool(path.stat().st_mode & 0o100)


def tar(path, entries, commit_time):
    """Writes a .tar.gz or .tar.xz: sorted, without an owner, every file dated by the commit."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data, is_program in sorted(entries):
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(data), commit_time, 0o755 if is_program else 0o644
            archive.addfile(info, io.BytesIO(data))
    if path.suffix == ".xz":
        data = lzma.compress(packed.getbuffer(), preset=9)
    else:
        data = gzip.compress(packed.getbuffer(), 6, mtime=commit_time)
    put(path, data)


def zipped(path, entries, commit_time, *, is_sorted=True):
    """Writes a .zip with the same properties. A wheel keeps the order of its entries, because RECORD comes last."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data, is_program in sorted(entries) if is_sorted else entries:
            info = zipfile.ZipInfo(name, time.gmtime(commit_time)[:6])
            info.create_system = 3
            info.external_attr = (0o100755 if is_program else 0o100644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data, compresslevel=9)
    put(path, packed.getvalue())


def put(path, data):
    """Writes a file atomically, so that an interrupted run leaves no partial file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_bytes(data)
    unfinished.replace(path)


def rewrite_wheel(source, path, added, commit_time):
    """Writes a wheel with further files in its .dist-info, and with a RECORD that names them."""
    with zipfile.ZipFile(source) as archive:
        infos = [info for info in archive.infolist() if not info.is_dir()]
        entries = {info.filename: (archive.read(info), bool(info.external_attr >> 16 & 0o100)) for info in infos}
    record = next(name for name in entries if name.endswith(".dist-info/RECORD"))
    metadata = pathlib.PurePosixPath(record).parent
    # maturin's own list of materials differs from run to run.
    entries = {name: entry for name, entry in entries.items() if "/sboms/" not in name and name != record}
    entries |= {str(metadata / name): (data, False) for name, data in added.items()}
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    for name, (data, _) in sorted(entries.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        writer.writerow([name, f"sha256={digest}", len(data)])
    writer.writerow([record, "", ""])
    ordered = [(name, *entry) for name, entry in sorted(entries.items())]
    zipped(path, [*ordered, (record, lines.getvalue().encode(), False)], commit_time, is_sorted=False)
