"""A log's segments: their files, what reads them, and which ones may go."""
