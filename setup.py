"""Only what pyproject.toml cannot say: the C reader is built by cffi."""

from setuptools import setup

setup(cffi_modules=["native/build_reader.py:ffibuilder"])
