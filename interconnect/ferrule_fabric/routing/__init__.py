"""Path allocation: from demands to a `RoutePlan`.

`allocate.allocate` is the way in; `loads.plan_loads` judges a plan; `bound.lower_bound` says how good any plan can be.
"""
