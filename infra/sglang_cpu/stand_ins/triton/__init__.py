"""Stands in for triton at import time, where no kernel is ever launched (a CPU-only engine).

Any submodule can be imported and any attribute read. A name in capitals is a class that can be
subclassed, any other a submodule that also works as a decorator and in annotations.
"""

import importlib.machinery
import sys
import types

__version__ = "3.9.0"


class _AnyArguments:
    def __init__(self, *args, **kwargs):
        pass

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__()


class _Module(types.ModuleType):
    def __init__(self, name):
        super().__init__(name)
        self.__path__ = []
        self.__package__ = name
        self.__spec__ = importlib.machinery.ModuleSpec(name, _Finder, is_package=True)

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        value = self.__dict__[name] = self._make(name)
        return value

    def _make(self, name):
        if name[:1].isupper():
            return type(name, (_AnyArguments,), {"__module__": self.__name__})
        full_name = f"{self.__name__}.{name}"
        return sys.modules.setdefault(full_name, _Module(full_name))

    def __call__(self, *args, **kwargs):
        """Serve as a bare decorator or as one with arguments."""
        if len(args) == 1 and callable(args[0]) and not kwargs:
            return args[0]
        return lambda decorated: decorated

    def __bool__(self):
        return False

    def __getitem__(self, index):
        return self

    def __mro_entries__(self, bases):
        return (_AnyArguments,)

    def __or__(self, other):
        return other

    __ror__ = __or__


class _Finder:
    """Finds every `triton.…` module, and makes it empty."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.startswith("triton."):
            return importlib.machinery.ModuleSpec(name, _Finder, is_package=True)
        return None

    @staticmethod
    def create_module(spec):
        return _Module(spec.name)

    @staticmethod
    def exec_module(module):
        pass


def cdiv(dividend, divisor):
    """Divide and round up."""
    return -(dividend // -divisor)


def next_power_of_2(number):
    """Return the smallest power of two that is not below `number`."""
    return 1 << (number - 1).bit_length() if number > 0 else 1


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(_ROOT, name)


_ROOT = _Module("triton")
sys.meta_path.append(_Finder)
