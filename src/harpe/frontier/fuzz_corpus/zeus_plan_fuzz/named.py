[
[('forward', 1740), ("backward", 1725)],
(['forward', 1740], ('backward', 0),),
]
# Iteration 0 cost change: 0.031
