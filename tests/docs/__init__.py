"""Tests of the documentation: what it shows happens, and the site builds."""
