"""The rules of the optimizer, one a file: `(SharedPlan, Facts) -> SharedPlan`. `optimizer.py` has their order."""
