"""What everything else stands on: errors, files, settings, the accuracy matrix, progress, hardware, colours."""
