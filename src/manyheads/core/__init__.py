"""What all packages share: configuration, masks, shapes, weights, traces, errors."""
