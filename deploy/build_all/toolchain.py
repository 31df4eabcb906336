"""Compilers and linkers for each target: the ones that rustup has, else Debian's sources of the standard library."""

import os
import pathlib
import platform
import shutil
import subprocess
import sys

# In these versions the whole was tried.
PYTHON_TOOLS = ["ziglang==0.15.2", "cargo-zigbuild==0.24.1", "maturin==1.16.0"]
# Rust for Debian's browsers: a compiler with the sources of its standard library, for stable releases of Debian too.
DEBIAN_RUST = ["rustc-web", "rust-web-src"]
WINDOWS_LINKER = """#!/bin/sh
# Leaves out two files that rustup's targets bring and Debian's compiler has in crtbegin.o and crtend.o.
for argument; do
    shift
    case $argument in *rsbegin.o | *rsend.o) ;; *) set -- "$@" "$argument" ;; esac
done
exec x86_64-w64-mingw32-gcc "$@"
"""


class Impossible(Exception):
    """What this machine cannot make, and why."""


def run(*command, **options):
    """Runs a command and shows it."""
    print("+", *map(str, command), flush=True)
    subprocess.run([str(word) for word in command], check=True, **options)


def output(*command, **options):
    """What a command prints."""
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True, **options).stdout.strip()


def host():
    """The target whose programs run here without an emulator, of those that are released."""
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
        """A Python with the tools, of which a folder of its own is made once."""
        folder = self.tools / "python"
        python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        marker = folder / "installed"
        if not marker.exists() or marker.read_text() != "\n".join(PYTHON_TOOLS):
            run(sys.executable, "-m", "venv", "--clear", folder)
            run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PYTHON_TOOLS)
            marker.write_text("\n".join(PYTHON_TOOLS))
        return python

    def has_std(self, target):
        """Whether rustup has the standard library of a target, or can fetch it."""
        libraries = pathlib.Path(output("rustc", "--print", "target-libdir", "--target", target))
        if not libraries.exists() and shutil.which("rustup"):
            subprocess.run(["rustup", "target", "add", target], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return libraries.exists()

    def std_sources(self):
        """The compiler and its standard library's sources, where rustup has no target: (environment, folder)."""
        sources = pathlib.Path(output("rustc", "--print", "sysroot")) / "lib/rustlib/src/rust/library"
        if sources.exists():
            return {}, sources
        folder = self.tools / "debian-rust"
        if not (folder / "complete").exists():
            if not shutil.which("apt-get"):
                raise Impossible("rustup has neither this target nor the component rust-src")
            self.unpack_debian_rust(folder)
        libraries = [folder / "usr/lib/x86_64-linux-gnu", folder / "usr/lib"]
        environment = {"RUSTC": str(folder / "usr/bin/rustc"), "LD_LIBRARY_PATH": ":".join(map(str, libraries))}
        return environment, next((folder / "usr/src").glob("rustc-*/library"))

    def unpack_debian_rust(self, folder):
        """Unpacks Debian's compiler, with the libraries that it names, beside the system."""
        wanted, waiting = set(), list(DEBIAN_RUST)
        while waiting:
            package = waiting.pop()
            if package not in wanted:
                wanted.add(package)
                lines = output("apt-cache", "depends", package).splitlines()
                names = (line.split()[-1] for line in lines if line.strip().startswith("Depends:"))
                waiting += [name for name in names if name.startswith(("libstd-rust-web", "libllvm", "rustc-web"))]
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "packages").mkdir(parents=True)
        run("apt-get", "download", *sorted(wanted), cwd=folder / "packages")
        for package in (folder / "packages").glob("*.deb"):
            run("dpkg", "-x", package, folder)
        # Its libraries are named by links that lead out of the folder that they were unpacked to.
        for link in folder.rglob("*"):
            if link.is_symlink() and os.readlink(link).startswith("/"):
                inside = folder / os.readlink(link).lstrip("/")
                link.unlink()
                link.symlink_to(inside)
        (folder / "complete").touch()

    def environment(self, target, commit, commit_time, *, is_wheel=False):
        """The environment in which cargo builds for a target, and the folder of what it builds."""
        # A shared library for musl is not static: other flags, another folder.
        is_dynamic = is_wheel and target.endswith("musl")
        builds = self.builds / ("wheels" if is_dynamic else "programs")
        flags, environment = [], {}
        remapped = [(self.root, "/chumoku"), (self.cargo_home, "/cargo"), (builds, "/target")]
        if not self.has_std(target):
            environment, sources = self.std_sources()
            environment |= {
                "RUSTC_BOOTSTRAP": "1",
                "__CARGO_TESTS_ONLY_SRC_ROOT": str(sources),
                "CARGO_UNSTABLE_BUILD_STD": "std,panic_abort",
            }
            remapped.append((sources, "/rust/library"))
            if target.endswith("musl"):
                # zig brings what rustup's target has in a folder of its own.
                flags.append("-Clink-self-contained=no")
        if is_dynamic:
            flags.append("-Ctarget-feature=-crt-static")
        if target.endswith("windows-gnu"):
            if not shutil.which("x86_64-w64-mingw32-gcc"):
                raise Impossible("needs x86_64-w64-mingw32-gcc (Debian: gcc-mingw-w64-x86-64-win32)")
            # Without the compiler's own libraries, and without the time of the build.
            flags += ["-Ctarget-feature=+crt-static", "-Clink-arg=-Wl,--no-insert-timestamp"]
            linker = self.tools / "windows-linker"
            linker.parent.mkdir(parents=True, exist_ok=True)
            linker.write_text(WINDOWS_LINKER)
            linker.chmod(0o755)
            environment["CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER"] = str(linker)
        # No path of this machine is in the program. The last match counts.
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
            "SOURCE_DATE_EPOCH": str(commit_time),
            "PATH": path,
            **environment,
        }
