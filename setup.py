"""Compiles the kernels when the package is built, by Cython, and packs examples.

The texts are in csdf/kernels and planners/kernels, their types in the folder `compiled` beside them.
Without Cython or a C compiler the package is built all the same, and runs the texts themselves.
Environment: CSDF_KERNELS is `plain` to compile nothing, or `compiled` to fail where nothing can be
compiled; by default the build takes what it can have. `sanitized` is for tests: kernels that end the
process where a sum, product or shift leaves 64 bits, and look at every index, in a folder of their own
by `build_ext --build-lib FOLDER`; see tests/sanitized/build.py.
"""

import contextlib
import multiprocessing
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import BaseError, CCompilerError

WISH = os.environ.get("CSDF_KERNELS", "")
KERNELS = Path("csdf", "kernels"), Path("planners", "kernels")
MODELS = Path("models")
SHARED = "csdf.kernels.compiled.shared"  # what all compiled kernels need; half of each without it
FLAGS = ["/O2"]
if os.name != "nt":  # sums wrap round, and are rounded one by one in the order that is written
    FLAGS = ["-O2", "-g0", "-fwrapv", "-ffp-contract=off", "-fcx-limited-range"]
if (
    WISH == "sanitized"
):  # the last flag is that of GCC before 13, which later ones and Clang know too
    FLAGS[:3] = ["-O0", "-g0", "-fno-wrapv"]  # Python's own flags hold -fwrapv: nothing would end
    FLAGS += ["-fsanitize=signed-integer-overflow,shift", "-fsanitize-undefined-trap-on-error"]
# The passes of GCC's -O2 that loops over arrays gain by: three quarters of the time of -O2 to compile,
# two thirds of -O3, and no command was slower by it. Other compilers do not have all of them.
GCC_PASSES = [
    *("-O1", "-fstrict-aliasing", "-fexpensive-optimizations", "-ftree-vrp", "-fthread-jumps"),
    *("-fcrossjumping", "-freorder-blocks-algorithm=stc", "-finline-functions", "-fgcse"),
]
LINK = ["-Wl,-s"] if sys.platform.startswith("linux") else []  # no names of what is not called
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": WISH == "sanitized",
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": False,  # rounds down, as in Python
    # Nothing pickles, introspects or reads a compiled kernel: a quarter of the C less.
    "auto_pickle": False,
    "binding": False,
    "emit_code_comments": False,
}
LACKING = """\
csdf: the kernels were not compiled ({reason}).
csdf: everything works, but slower. Install a C compiler and install csdf again.
"""


class BuildWithExamples(build_py):
    """Puts the examples beside the modules, where `csdf examples` finds them."""

    def run(self) -> None:
        """Build the modules, then copy the folder `models`."""
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib, "csdf", "examples")
            left_out = shutil.ignore_patterns("__pycache__")
            shutil.copytree(MODELS, target, dirs_exist_ok=True, ignore=left_out)


class BuildKernels(build_ext):
    """Translates the kernels into C, and compiles them side by side."""

    def finalize_options(self) -> None:
        """Use all cores."""
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count() or 1

    def run(self) -> None:
        """Build all kernels, or none."""
        try:
            self._compile()
        except (BaseError, CCompilerError, ImportError, OSError) as error:
            if WISH in ("compiled", "sanitized"):
                raise
            self._leave_out(str(error))

    def _compile(self) -> None:
        from Cython.Build import cythonize
        from Cython.Compiler import Options
        from Cython.Compiler.Errors import CompileError

        Options.docstrings = False  # the text has them

        can_fork = multiprocessing.get_start_method() == "fork"
        try:
            translated = cythonize(
                self.extensions,
                build_dir=self.build_temp,
                compiler_directives=DIRECTIVES,
                nthreads=self.parallel if can_fork else 0,
                shared_utility_qualified_name=SHARED,
                quiet=True,
            )
        except CompileError as error:  # of our own text: never to be passed over
            raise SystemExit(str(error)) from error
        sources = {extension.name: extension.sources for extension in translated}
        for extension in self.extensions:
            extension.sources = sources[extension.name]
        super().run()

    def build_extensions(self) -> None:
        """Compile the kernels; by GCC with the passes that they gain by."""
        if is_gcc():
            for extension in self.extensions:
                flags = extension.extra_compile_args
                if "-O2" in flags:
                    place = flags.index("-O2")
                    extension.extra_compile_args = [
                        *flags[:place],
                        *GCC_PASSES,
                        *flags[place + 1 :],
                    ]
        super().build_extensions()

    def _leave_out(self, reason: str) -> None:
        """Go on as a package without compiled code, which fits every machine."""
        self.extensions = []
        self.distribution.ext_modules = []
        self.distribution.get_command_obj("bdist_wheel").root_is_pure = True
        say(LACKING.format(reason=reason.strip() or "no compiler"))


def is_gcc() -> bool:
    """Whether the C compiler is GCC, as it says itself."""
    words = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    try:
        answer = subprocess.run([*words, "--version"], capture_output=True, check=False)
    except OSError:
        return False
    return b"Free Software Foundation" in answer.stdout


def say(text: str) -> None:
    """Write to the terminal where there is one: installers keep the output of a build to themselves."""
    sys.stderr.write(text)
    with contextlib.suppress(OSError), open("/dev/tty", "w") as terminal:
        terminal.write(text)


def kernels() -> list[Extension]:
    """Return a compiled module for each text that has its types declared, and what they share."""
    # The shared unit is as long as three kernels, and no loop runs in it.
    less_optimised = ["-O1" if flag == "-O2" else flag for flag in FLAGS]
    shared = Extension(
        SHARED,
        [f"{SHARED.replace('.', '/')}.c"],  # which Cython writes
        extra_compile_args=less_optimised,
        extra_link_args=LINK,
    )
    texts = [
        Extension(
            ".".join([*types.parts[:-1], types.stem]),
            [str(folder / f"{types.stem}.py")],
            depends=[str(types)],
            extra_compile_args=FLAGS,
            extra_link_args=LINK,
        )
        for folder in KERNELS
        for types in sorted((folder / "compiled").glob("*.pxd"))
    ]
    return [shared, *texts]


setup(
    ext_modules=[] if WISH == "plain" else kernels(),
    cmdclass={"build_ext": BuildKernels, "build_py": BuildWithExamples},
)
