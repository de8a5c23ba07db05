"""How kernels are compiled: once per machine, cached on disk, and never silently.

The options mean: division by zero gives infinity, as in NumPy (``error_model``); threads may run kernels side by side
(``nogil``); small pieces are merged into their callers (``forceinline``); arrays are not reference-counted (``_nrt``),
which is most of the cost of a small kernel and needless where nothing is allocated.

Every kernel is two Numba functions in one. Python calls the outer one: it is optimised, made executable and cached on
disk when Python first calls it. Compiled code calls the inner one, which is only translated to LLVM's language: not
optimised, not executable, not cached. An outer function links in all inner ones that it needs and is optimised once,
with them. Numba alone would optimise every function on its own and then again in each of its callers, which took most
of the time of a first use. Sums are the exception: their inner functions are optimised, because the order in which a
sum is vectorised decides its last digits, and these must not depend on the caller.

Constants among the arguments of a call (``False``, ``0``) are typed as variables, or there would be an inner function
for each value.

The cache has one file per outer function and signature. Its name holds a stamp of everything that the machine code
depends on: the text of all files with compiled code (of this package, and those of other modules that bring the
function or the types of its arguments), the function's own bytecode and the versions of Numba and llvmlite.
`docs/caching.md` says where these files are.
"""

import gc
import hashlib
import os
import pickle
import stat
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any, TypeVar, cast

import llvmlite
import numba
import numpy as np
from numba.core import caching as _caching
from numba.core import codegen as _codegen
from numba.core import compiler as _compiler
from numba.core import config as _config
from numba.core import registry as _registry
from numba.core import serialize as _serialize
from numba.core import types as _types
from numba.misc import appdirs as _appdirs

F = TypeVar("F", bound=Callable[..., Any])

njit: Any = numba.njit  # Numba's type hints lack some of its options
caching: Any = _caching  # and these have no type hints
codegen: Any = _codegen
compiler: Any = _compiler
config: Any = _config
registry: Any = _registry
serialize: Any = _serialize
types: Any = _types
appdirs: Any = _appdirs
OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy", "nogil": True, "forceinline": True, "_nrt": False}
MERGED: Any = {name: value for name, value in OPTIONS.items() if name not in ("cache", "nogil")}  # overloads


def compiled(function: F) -> F:
    """Compile a kernel: scalar loops over arrays, no allocation, no exceptions."""
    return _kernel(function)


def compiled_apart(function: F) -> F:
    """Compile a kernel that is too large to be merged into its callers."""
    return _kernel(function, forceinline=False)


def merged(function: F) -> F:
    """Compile a kernel as part of each of its callers and never on its own."""
    return _kernel(function, inline="always")


def compiled_sum(function: F) -> F:
    """Compile a sum, whose terms may be added in any order, and so vectorised. Nothing else may be reordered."""
    return _kernel(function, _InnerSum, fastmath={"reassoc", "contract", "nsz"})


def compiled_door(function: F) -> F:
    """Compile a function that Python calls and that allocates its answer.

    The function may be made by `exec`. Its qualified name must then be unique in the module that its globals name by
    ``__name__``, and the kernels it calls must be in these globals, not in a closure.
    """
    return _kernel(function, forceinline=False, _nrt=True)


def _kernel(function: F, inner: Any = None, **options: Any) -> F:
    if config.DISABLE_JIT:
        return function
    usual = {name: value for name, value in OPTIONS.items() if name != "cache"}
    usual |= {"nopython": True, "boundscheck": None, "fastmath": False}
    return cast(F, _Kernel(function, inner or _Inner, {**usual, **options}))


class _InnerLibrary(codegen.JITCodeLibrary):
    """The code of a function that only compiled code calls: lowered, and neither optimised nor made executable."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _InnerSumLibrary(_InnerLibrary):
    """The same code, optimised."""

    def _optimize_final_module(self) -> None:
        codegen.JITCodeLibrary._optimize_final_module(self)


HASH = hash(compiler.Flags())  # it depends on the names of the options alone


class _Flags(compiler.Flags):
    """Numba's options of a function. Numba compares them for every operator it types, so comparison must be fast."""

    def __hash__(self) -> int:
        return HASH

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, _Flags) and self._values == other._values
        return same or bool(compiler.Flags.__eq__(self, other))


class _Inner(compiler.Compiler):
    """Numba's compiler, with a library of ours."""

    library: type[_InnerLibrary] = _InnerLibrary

    def __init__(
        self, typing: Any, target: Any, library: Any, args: Any, returns: Any, flags: Any, variables: Any
    ) -> None:
        super().__init__(typing, target, library, args, returns, _Flags(flags), variables)

    def define_pipelines(self) -> Any:
        state = self.state
        state.flags.no_compile = True
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        return super().define_pipelines()


class _InnerSum(_Inner):
    library = _InnerSumLibrary


class _InnerKernel(registry.CPUDispatcher):
    """A kernel as compiled code calls it."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        plain = [types.unliteral(kind) for kind in args]
        return super().get_call_template(plain, {name: types.unliteral(kind) for name, kind in kws.items()})

    def add_overload(self, result: Any) -> None:
        key = object()  # stands for the executable function by which Numba would find the code
        self.targetctx.insert_user_function(key, result.fndesc, [result.library])
        self.overloads[tuple(result.signature.args)] = result._replace(entry_point=key)


class _Kernel(registry.CPUDispatcher):
    """A kernel as Python calls it; compiled code that calls it is given the inner one."""

    def __init__(self, function: Callable[..., Any], inner: Any, options: dict[str, Any]) -> None:
        super().__init__(function, targetoptions={**options, "no_cfunc_wrapper": True})
        unwrapped = {**options, "no_cfunc_wrapper": True, "no_cpython_wrapper": True}
        self._inner = _InnerKernel(function, targetoptions=unwrapped, pipeline_class=inner)
        self._cache = _KernelCache(function)
        self._on_device: Any = None

    def compile(self, signature: Any) -> Any:
        """Load or compile with garbage collection paused: it would take a tenth of the time and find little."""
        looks_for_garbage = gc.isenabled()
        gc.disable()
        try:
            return super().compile(signature)
        finally:
            if looks_for_garbage:
                gc.enable()

    @property
    def _CUDATypingContext__dispatcher(self) -> Any:  # noqa: N802
        """The kernel for a GPU. Numba's compiler for CUDA looks here for it, under this name."""
        if self._on_device is None:
            from surefoot.kernels.device import device_kernel

            self._on_device = device_kernel(self.py_func, merged=self.targetoptions.get("inline") == "always")
        return self._on_device

    def __reduce__(self) -> str:
        return str(self.__qualname__)  # pickled by name

    def get_call_template(self, args: Any, kws: Any) -> Any:
        return self._inner.get_call_template(args, kws)

    def get_overload(self, signature: Any) -> Any:
        return self._inner.get_overload(signature)


PACKAGE = Path(__file__).parent.parent
COMPILED = ("rules.py", "problem.py", "kernels/*.py", "policies/*.py")


def kept_in() -> Path | None:
    """The folder to which compiled kernels of the package are written; None if there is none."""
    return _folders_of(PACKAGE / "__init__.py", config.CACHE_DIR)[1]


class _KernelCache(caching._Cache):
    """The compiled code of one function, on disk: a file for each signature."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @property
    def cache_path(self) -> str | None:
        """Where new files go; None if they cannot be kept."""
        folder = self._folders()[1]
        return None if folder is None else str(folder)

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The compiled function from its file. If there is none, announce that Numba will compile it."""
        context.refresh()
        name = self._name(signature, context.codegen())
        if name is None:
            return None
        readable, writable = self._folders()
        for folder in readable:
            with suppress(Exception):  # a file that is missing, cut off or spoilt is compiled again
                payload = (folder / name).read_bytes()
                return compiler.CompileResult._rebuild(context, *pickle.loads(payload))
        if writable is None:
            kept = f"the result is not kept, because {readable[0]} cannot be written to, nor any other folder"
        elif writable != readable[0]:
            kept = f"the result is kept in {writable}, because {readable[0]} cannot be written to"
        else:
            kept = "the result is kept"
        _say_once("compiling", f"compiling kernels (first use of these on this machine; {kept}) ...")
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Write a file, at once or not at all, and remove those of earlier versions of the function."""
        name, folder = self._name(signature, result.codegen), self._folders()[1]
        if name is None or folder is None or result.lifted or result.library.has_dynamic_globals:
            return
        unfinished = folder / f"{uuid.uuid4().hex}.tmp"
        try:
            unfinished.write_bytes(serialize.dumps(result._reduce()))
            unfinished.replace(folder / name)
            for path in self._files(folder):
                if path.name.split(".")[-3] != name.split(".")[-3]:
                    path.unlink(missing_ok=True)
        except OSError as error:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            _say_once("unsaved", f"compiled kernels could not be written to {folder}: {error.strerror}")

    def flush(self) -> None:
        """Remove the files of this function."""
        folder = self._folders()[1]
        if folder is not None:
            for path in self._files(folder):
                path.unlink(missing_ok=True)

    def enable(self) -> None:
        """Part of Numba's interface; this cache is always on."""

    disable = enable

    def _stem(self) -> str:
        name = f"{self._function.__module__}.{self._function.__qualname__}".replace("<", "").replace(">", "")
        return f"{name}-py{sys.version_info[0]}{sys.version_info[1]}"

    def _files(self, folder: Path) -> Iterator[Path]:
        return folder.glob(f"{self._stem()}.*.*.nbc")

    def _name(self, signature: Any, generator: Any) -> str | None:
        """The name of the file for a signature on this kind of processor; None if the code cannot be kept."""
        parts = list(_parts(getattr(signature, "args", signature)))
        classes = {part.instance_class for part in parts if hasattr(part, "instance_class")}
        modules = {self._function.__module__, *(class_.__module__ for class_ in classes)}
        texts = [_text_of(module) for module in sorted(map(str, modules)) if not _is_ours(module)]
        if None in texts:
            return None
        stamp = _digest(_package_stamp(), *texts, *_words(self._function, set()))
        described = [f"{part} {getattr(part, 'instance_class', '')}" for part in parts]
        return f"{self._stem()}.{stamp}.{_digest(*described, str(generator.magic_tuple()))}.nbc"

    def _folders(self) -> tuple[tuple[Path, ...], Path | None]:
        module = self._function.__module__
        path = PACKAGE / "__init__.py" if _is_ours(module) else _file_of(str(module))
        return ((), None) if path is None else _folders_of(path, config.CACHE_DIR)


def _parts(signature: Any) -> Iterator[Any]:
    """The types of a signature, and those that they are made of."""
    for type_ in signature:
        yield type_
        if isinstance(type_, types.BaseTuple):
            yield from _parts(type_.types)


def _words(function: Any, seen: set[int]) -> Iterator[str]:
    """What a function and the kernels that it calls say: bytecode, constants, closures, globals, named tuples.

    The text of files is not enough: generated functions have none, a module may be reloaded, or edited before it is
    compiled.
    """
    if id(function) in seen:
        return
    seen.add(id(function))
    yield from _code_words(function.__code__)
    values = [cell.cell_contents for cell in function.__closure__ or ()]
    values += [function.__globals__.get(name) for name in _names(function.__code__)]
    for value in values:
        if hasattr(value, "py_func"):
            yield from _words(value.py_func, seen)
        elif isinstance(value, type) and hasattr(value, "_fields"):
            yield f"{value.__qualname__}{value._fields}"
        elif isinstance(value, bool | int | float | str | tuple | np.ndarray):
            yield repr(value.tolist() if isinstance(value, np.ndarray) else value)


def _names(code: CodeType) -> Iterator[str]:
    """The global names that a function uses, functions inside it included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _code_words(code: CodeType) -> Iterator[str]:
    """What the bytecode of a function says, constants and functions inside it included."""
    yield from (code.co_code.hex(), repr(code.co_names), repr(code.co_varnames))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_words(constant)
        else:
            yield repr(constant)


def _digest(*words: str | None) -> str:
    return hashlib.sha256(repr(words).encode()).hexdigest()[:20]


@cache
def _package_stamp() -> str:
    """Changes with the text of any file of the package that has compiled code, and with the compiler."""
    paths = sorted(path for pattern in COMPILED for path in PACKAGE.glob(pattern))
    texts = (f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in paths)
    return _digest(numba.__version__, llvmlite.__version__, *texts)


_package_stamp()  # now: files may change under a running process


def _is_ours(module: str | None) -> bool:
    return module is not None and module.startswith("surefoot.")


def _file_of(module: str) -> Path | None:
    """The file of a module, if it has one."""
    name = getattr(sys.modules.get(module), "__file__", None)
    return Path(name) if name and Path(name).is_file() else None


@cache
def _text_of(module: str) -> str | None:
    path = _file_of(module)
    return None if path is None else hashlib.sha256(path.read_bytes()).hexdigest()


@cache
def _folders_of(path: Path, chosen: str) -> tuple[tuple[Path, ...], Path | None]:
    """The folders to search for the compiled code of a file, in order; new code goes to the last one, or nowhere.

    A folder that cannot be written to may still hold what an administrator has compiled.
    """
    part = caching._CacheLocator.get_suitable_cache_subpath(str(path))
    own = Path(appdirs.AppDirs("surefoot", appauthor=False).user_cache_dir)
    readable = []
    for folder in (Path(chosen) / part if chosen else path.parent / "__pycache__", own / part):
        readable.append(folder)
        if _is_writable(folder):
            return tuple(readable), folder
    with suppress(OSError):
        shared = Path(tempfile.gettempdir()) / f"surefoot-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
        if _is_private(shared) and _is_writable(shared / part):
            return (*readable, shared / part), shared / part
    return tuple(readable), None


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _is_private(folder: Path) -> bool:
    """True if a folder, created if needed, belongs to this user alone; code that others put there must not run."""
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    return not hasattr(os, "getuid") or (found.st_uid == os.getuid() and found.st_mode & 0o170077 == stat.S_IFDIR)


_said: set[str] = set()


def _say_once(topic: str, sentence: str) -> None:
    """Print a sentence to stderr, once per process and topic."""
    if topic not in _said:
        _said.add(topic)
        print(f"surefoot: {sentence}", file=sys.stderr)
