"""Features of a frozen network, the protocol that meets them with test images, and the result it writes."""
