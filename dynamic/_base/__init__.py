"""The ground: locks, origins of samples, states, threads and layouts, which need no array."""
