"""Layouts for the people who change them."""
