"""Only what pyproject.toml cannot say: the C reader is built by cffi."""

from setuptools import setup

setup(
    cffi_modules=["native/build_reader.py:ffibuilder"],
    # The reader keeps to Python's limited API: one wheel a platform, for Python 3.11 and newer.
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
