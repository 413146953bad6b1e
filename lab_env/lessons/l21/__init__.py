"""Lesson 21: scale out."""
