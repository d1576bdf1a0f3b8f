"""Unpacks the parts of the torch wheels that a C++ build needs: headers and the CPU and c10 libraries.

usage: unpack_torch.py WHEEL_DIR OUTPUT_DIR
"""
import pathlib
import shutil
import sys
import zipfile



def wanted(name: str) -> bool:
    path = pathlib.PurePosixPath(name)
    if name.startswith("torch/include/"):
        return True
    if name.startswith("torch/lib/"):
        return path.name in ("libtorch_cpu.so", "libc10.so") or path.name.startswith("libgomp")
    if name == "torch/version.py":
        return True
    return name.startswith("nvidia/") and "/lib/" in name and ".so" in path.name


def main() -> None:
    wheel_dir, output_dir = map(pathlib.Path, sys.argv[1:])
    for wheel in sorted(wheel_dir.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                if member.is_dir() or not wanted(member.filename):
                    continue
                target = output_dir / member.filename
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, open(target, "wb") as sink:
                    shutil.copyfileobj(source, sink, 1 << 22)


if __name__ == "__main__":
    main()
