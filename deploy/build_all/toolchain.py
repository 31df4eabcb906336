"""Compilers and linkers for each target: Rust from rustup, zig for C and for linking (Linux, macOS), MinGW for Windows."""

import os
import pathlib
import platform
import shutil
import subprocess
import sys

# The tested versions.
PYTHON_TOOLS = ["ziglang==0.15.2", "cargo-zigbuild==0.24.1", "maturin==1.16.0"]

# Apple's libraries that zig does not describe, with the symbols that our dependencies use: enough to link without an
# SDK.
APPLE_LIBRARIES = {
    "libobjc.tbd": ("/usr/lib/libobjc.A.dylib", "objc_msgSend objc_retain objc_release objc_autorelease objc_alloc objc_getClass sel_registerName"),
    "Foundation.framework/Foundation.tbd": ("/System/Library/Frameworks/Foundation.framework/Versions/C/Foundation", ""),
    "CoreFoundation.framework/CoreFoundation.tbd": (
        "/System/Library/Frameworks/CoreFoundation.framework/Versions/A/CoreFoundation",
        "CFRelease CFStringGetBytes CFStringGetCStringPtr CFStringGetLength CFTimeZoneCopySystem CFTimeZoneGetName CFTimeZoneResetSystem",
    ),
}


class Impossible(Exception):
    """The reason why this machine cannot build something."""


def run(*command, **options):
    """Prints and runs a command."""
    print("+", *map(str, command), flush=True)
    subprocess.run([str(word) for word in command], check=True, **options)


def output(*command, **options):
    """Returns the output of a command."""
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True, **options).stdout.strip()


def host():
    """Returns the released target whose programs run here without an emulator."""
    machine = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    system = {"Linux": "unknown-linux-musl", "Darwin": "apple-darwin", "Windows": "pc-windows-gnu"}[platform.system()]
    return f"{machine}-{system}"


class Toolchain:
    """Runs cargo for any target."""

    def __init__(self, root, target_folder):
        self.root, self.tools = root, target_folder / "release-tools"
        self.builds = target_folder / "release-builds"
        self.cargo_home = pathlib.Path(os.environ.get("CARGO_HOME", pathlib.Path.home() / ".cargo"))

    def python(self):
        """Returns a Python with the tools, in an environment that is created once."""
        folder = self.tools / "python"
        python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        marker = folder / "installed"
        if not marker.exists() or marker.read_text() != "\n".join(PYTHON_TOOLS):
            try:
                run(sys.executable, "-m", "venv", "--clear", folder)
                run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PYTHON_TOOLS)
            except subprocess.CalledProcessError as failed:
                raise Impossible(f"pip could not install {' and '.join(PYTHON_TOOLS)}") from failed
            marker.write_text("\n".join(PYTHON_TOOLS))
        return python

    def add_target(self, target):
        """Ensures that rustup has the standard library of a target."""
        libraries = pathlib.Path(output("rustc", "--print", "target-libdir", "--target", target))
        if not libraries.exists() and (not shutil.which("rustup") or subprocess.run(["rustup", "target", "add", target]).returncode):
            raise Impossible(f"Rust has no standard library for it (rustup target add {target})")

    def apple_libraries(self):
        """Returns a folder with descriptions of Apple's libraries for the linker."""
        folder = self.tools / "apple"
        for name, (installed, symbols) in APPLE_LIBRARIES.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            names = ", ".join(f"_{symbol}" for symbol in symbols.split())
            exports = f"exports:\n  - targets: [ x86_64-macos, arm64-macos ]\n    symbols: [ {names} ]\n" if names else ""
            path.write_text(
                f"--- !tapi-tbd\ntbd-version: 4\ntargets: [ x86_64-macos, arm64-macos ]\ninstall-name: '{installed}'\n{exports}...\n"
            )
        return folder

    def environment(self, target, commit, *, is_wheel=False):
        """Returns the environment in which cargo builds for a target, and the output folder."""
        # A shared library for musl is not static: other flags, another folder.
        is_dynamic = is_wheel and target.endswith("musl")
        builds = self.builds / ("wheels" if is_dynamic else "programs")
        self.add_target(target)
        flags, environment = [], {}
        if is_dynamic:
            flags.append("-Ctarget-feature=-crt-static")
        if target.endswith("windows-gnu"):
            if not shutil.which("x86_64-w64-mingw32-gcc"):
                raise Impossible("needs x86_64-w64-mingw32-gcc (Debian: gcc-mingw-w64-x86-64-win32)")
            # Without a runtime library of the compiler, and without the time of the build.
            flags += ["-Ctarget-feature=+crt-static", "-Clink-arg=-Wl,--no-insert-timestamp"]
            environment["CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER"] = "x86_64-w64-mingw32-gcc"
        if target.endswith("apple-darwin") and sys.platform != "darwin":
            folder = self.apple_libraries()
            flags += [f"-Lnative={folder}", f"-Lframework={folder}"]
        remapped = [(self.root, "/chumoku"), (self.cargo_home, "/cargo"), (builds, "/target")]
        # The program contains no path of this machine. The last match counts.
        flags += [f"--remap-path-prefix={folder}={name}" for folder, name in remapped]
        c_flags = " ".join(f"-ffile-prefix-map={folder}={name}" for folder, name in remapped)
        path = os.pathsep.join([str(self.python().parent), os.environ["PATH"]])
        return builds, {
            **os.environ,
            "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
            f"CFLAGS_{target.replace('-', '_')}": c_flags,
            "CARGO_TARGET_DIR": str(builds),
            "CARGO_INCREMENTAL": "0",
            "CHUMOKU_COMMIT": commit,
            # Not the commit's time: each commit would recompile the C code and its dependents.
            "SOURCE_DATE_EPOCH": "315532800",
            "PATH": path,
            **environment,
        }
